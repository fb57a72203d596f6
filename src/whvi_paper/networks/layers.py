"""The layers under WHVI as the paper has them: their blocks have a side that is a power of two."""

from functools import partial

from whvi import nn

WHVILinear = partial(nn.WHVILinear, pad_to="power_of_two")
WHVIConv2d = partial(nn.WHVIConv2d, pad_to="power_of_two")
