"""What is compared: the transform, the chain and the noise, each with the ways one would do it otherwise."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from whvi.ops import chain, draw_seed, fallback, fwht, noisy_chain, normal, reference

Contenders = dict[str, Callable[[], object]]


def transform(batch: int, size: int) -> Contenders:
    """Ways to H x for x of shape (batch, size); the dense product is left out where H would not fit in memory."""
    x = torch.randn(batch, size)
    runs: Contenders = {
        "clone": x.clone,
        "whvi": lambda: fwht(x),
        "kronecker": lambda: fallback.fwht(x, 1.0),
        "loop": lambda: reference.butterflies(x),
    }
    if size <= 4096:
        matrix = reference.hadamard(size, dtype=torch.float32)
        runs["matmul"] = lambda: x @ matrix
    return runs


def training_step(batch: int, size: int) -> Contenders:
    """Forward and backward of the chain, with and without noise, against separate operators and nn.Linear."""
    x = torch.randn(batch, size, requires_grad=True)
    s1, g, log_std, s2 = (torch.randn(size, requires_grad=True) for _ in range(4))
    linear = nn.Linear(size, size, bias=False)
    dy = torch.randn(batch, size)
    leaves = (x, s1, g, log_std, s2, linear.weight)

    def step(forward: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            forward().backward(dy)
            for leaf in leaves:
                leaf.grad = None

        return run

    return {
        "nn.Linear": step(lambda: linear(x)),
        "chain": step(lambda: chain(x, s1, g, s2)),
        "chain + noise": step(lambda: noisy_chain(x, s1, g, log_std, s2, draw_seed())),
        "separate": step(lambda: s1 * fwht(g * fwht(s2 * x), scale=1.0 / size)),
    }


def noise(batch: int, size: int) -> Contenders:
    """batch * size standard normals."""
    shape = (batch, size)
    return {"torch.randn": lambda: torch.randn(shape), "whvi.ops.normal": lambda: normal(7, 0, shape)}


def one_transform(batch: int, size: int) -> Contenders:
    """The transform alone, for its growth with D."""
    x = torch.randn(batch, size)
    return {"whvi": lambda: fwht(x)}
