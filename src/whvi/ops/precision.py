"""In which precision parameters are computed."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """A block without autocast, for products that half precision would spoil."""
    kind = like.device.type
    active = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.autocast(kind, enabled=False) if active else nullcontext()


def wide(parameter: Tensor) -> Tensor:
    """A parameter in the precision it is computed in: half precision becomes float32."""
    return parameter.float() if parameter.dtype in (torch.bfloat16, torch.float16) else parameter
