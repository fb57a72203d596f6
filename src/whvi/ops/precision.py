"""The compute precision of parameters."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

_WITH_AUTOCAST = frozenset(
    kind for kind in ("cpu", "cuda", "xpu", "mps", "mtia", "hpu") if torch.amp.is_autocast_available(kind)
)
"""Devices that know autocast; asked once, as torch.compile of torch 2.10 cannot trace the question."""


def autocast_is_on(kind: str) -> bool:
    """Whether ``torch.autocast`` is on for tensors of this kind of device.

    >>> with torch.autocast("cpu"):
    ...     autocast_is_on("cpu"), autocast_is_on("meta")
    (True, False)
    """
    return kind in _WITH_AUTOCAST and torch.is_autocast_enabled(kind)


def full_precision(like: Tensor) -> AbstractContextManager[object]:
    """A block without autocast, for products that need full precision."""
    kind = like.device.type
    active = autocast_is_on(kind)
    return torch.autocast(kind, enabled=False) if active else nullcontext()


def wide(parameter: Tensor) -> Tensor:
    """A parameter in its compute precision: half precision becomes float32."""
    return parameter.float() if parameter.dtype in (torch.bfloat16, torch.float16) else parameter
