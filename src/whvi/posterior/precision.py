"""In which precision parameters are computed."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """A block without autocast, for products that half precision would spoil."""
    kind = like.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()


def wide(parameter: Tensor) -> Tensor:
    """A parameter in the precision it is computed in: half precision becomes float32."""
    return parameter.float() if parameter.dtype in (torch.bfloat16, torch.float16) else parameter
