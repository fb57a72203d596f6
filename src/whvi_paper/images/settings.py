"""How networks on images are trained: the settings of each method, and the algorithm that they make."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError
from whvi.inference import SVI, OneCycle
from whvi.ops.torch_private import has_bfloat16
from whvi_paper.baselines import NoisyKFAC
from whvi_paper.baselines.matrix_gaussian import MatrixGaussian

SCHEDULES = ("one-cycle", "constant")
PRECISIONS = ("auto", "full", "bf16")
CONFIGURATION: dict[str, Any] = {
    "batch_size": 256, "learning_rate": 3e-3, "schedule": "one-cycle", "precision": "auto",
}  # fmt: skip
OF_NNG: dict[str, Any] = {
    "learning_rate": 0.1, "adam_learning_rate": 3e-3, "damping": 1e-2, "moments_every": 5, "update_every": 50,
    "precision": "full",
}  # fmt: skip
"""The first rate is that of natural gradients; noisy K-FAC has no reduced precision."""
_NUMBERS_OF_NNG = tuple(name for name in OF_NNG if name != "precision")


def complete(model: nn.Module, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are given, and for the others those of the model's method; "auto" becomes a precision.

    >>> complete(nn.Linear(2, 1), {"batch_size": 32, "precision": "full"})["learning_rate"]
    0.003
    """
    curved = has_curvature(model)
    found = CONFIGURATION | {"validation": False} | (OF_NNG if curved else {}) | dict(given)
    one_of("precision", found["precision"], PRECISIONS)
    if curved and found["precision"] == "bf16":
        raise ArgumentError("noisy K-FAC, which trains this model, has no precision 'bf16'; use full or auto")
    if found["precision"] == "auto":
        found["precision"] = "full" if curved else native_precision()
    return found


def algorithm(model: nn.Module, settings: Mapping[str, Any], steps: int) -> SVI | NoisyKFAC:
    """What complete settings ask for: noisy K-FAC where a layer needs it, however the treatment is called."""
    one_of("schedule", settings["schedule"], SCHEDULES)
    schedule = OneCycle(steps) if settings["schedule"] == "one-cycle" else 1.0
    if has_curvature(model):
        return NoisyKFAC(schedule=schedule, **{name: settings[name] for name in _NUMBERS_OF_NNG})
    return SVI(settings["learning_rate"], schedule=schedule, precision=settings["precision"])


def cycles(epochs: int | Sequence[int]) -> list[int]:
    """Epochs of each cycle.

    >>> cycles(10), cycles([10, 6])
    ([10], [10, 6])
    """
    return [epochs] if isinstance(epochs, int) else list(epochs)


def has_curvature(model: nn.Module) -> bool:
    """Whether there are layers whose covariance comes from curvature, so that only noisy K-FAC can train them."""
    return any(isinstance(module, MatrixGaussian) for module in model.modules())


def native_precision() -> str:
    """ "bf16" where the processor has instructions for it; elsewhere it is emulated, and slower than full precision."""
    return "bf16" if torch.backends.mkldnn.is_available() and has_bfloat16() else "full"


class Reduced(nn.Module):
    """A network that computes in bf16, as it was trained; what it gives is in full precision. (N, ...) -> (N, K)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            found: Tensor = self.model(x)
        return found.float()


def as_trained(model: nn.Module, settings: Mapping[str, Any]) -> nn.Module:
    """The model in the precision of complete settings: what is asked for predictions."""
    return Reduced(model) if settings["precision"] == "bf16" else model


def one_of(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise the error that lists the choices, unless the value is one of them."""
    if value not in choices:
        raise ArgumentError(f"{name} {value!r} is unknown; use one of: {', '.join(choices)}")
