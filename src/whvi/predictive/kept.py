"""Models that are known to keep rows apart, so that no pass has to find out."""

from torch import nn

from whvi.nn import MeanFieldLinear, WHVILinear
from whvi.ops.torch_private import hooked

_LINEAR = (WHVILinear, MeanFieldLinear, nn.Linear, nn.LayerNorm)
_ELEMENTWISE = (
    *(nn.Identity, nn.Dropout, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish),
    *(nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Softsign),
)
_KEEPING = frozenset((*_LINEAR, *_ELEMENTWISE))
"""Of these classes themselves: a subclass may do something else."""


def keeps_rows(model: nn.Module) -> bool:
    """Whether all layers are known to see the rows on their first axis: a sequence of linear layers and activations.

    >>> keeps_rows(nn.Sequential(WHVILinear(4, 16), nn.ReLU(), WHVILinear(16, 1)))
    True
    >>> keeps_rows(nn.Sequential(nn.Flatten(0, 1), WHVILinear(4, 1)))
    False
    """
    if hooked(model) or "forward" in vars(model):
        return False
    return all(map(keeps_rows, model)) if type(model) is nn.Sequential else type(model) in _KEEPING
