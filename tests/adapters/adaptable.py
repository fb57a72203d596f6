"""Small modules of each kind that can have a delta."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class Conv1D(nn.Module):
    """As in transformers: a linear layer whose weight is (inputs, outputs)."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.randn(nx, nf) * 0.02)
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class QuantLinear(nn.Module):
    """Weights of eight bits, as buffers."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.register_buffer("weight", torch.randint(-127, 128, (out_features, in_features), dtype=torch.int8))
        self.register_buffer("scale", torch.tensor(0.002))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.get_buffer("weight").to(x.dtype) * self.get_buffer("scale"))


class Attended(nn.Module):
    """Attention to itself; its first output."""

    def __init__(self, batch_first: bool = True, **options: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=batch_first, **options)
        nn.init.normal_(self.attention.in_proj_bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor
        if self.attention.kdim == 16:
            y, _ = self.attention(x, x, x, need_weights=False)
        else:
            y, _ = self.attention(x, x[..., :8], x[..., :12])
        return y


KINDS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(12, 20), (6, 12)),
    "LinearOfTokens": (lambda: nn.Linear(12, 20, bias=False), (6, 3, 12)),
    "Conv2d": (lambda: nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2), (6, 4, 5, 4)),
    "Conv1d": (lambda: nn.Conv1d(4, 8, 3, padding="same", padding_mode="circular"), (6, 4, 7)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 8, 3, stride=2, dilation=2), (6, 4, 7)),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 8, 3, 2, 1, 1, groups=2), (6, 4, 3, 4)),
    "Conv1D": (lambda: Conv1D(20, 12), (6, 3, 12)),
    "Attention": (Attended, (6, 5, 16)),
    "AttentionOfOthers": (lambda: Attended(kdim=8, vdim=12), (6, 5, 16)),
}
"""Each with the shape of an input of six examples."""


def made(kind: str) -> tuple[nn.Module, Tensor]:
    """A module of float64 and an input."""
    make, shape = KINDS[kind]
    return make().double(), torch.randn(shape, dtype=torch.float64)
