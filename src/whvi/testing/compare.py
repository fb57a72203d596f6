"""Comparisons for the contracts: relative errors, estimates with standard errors, raised errors."""

from collections.abc import Callable, Iterable
from math import sqrt
from typing import TypeVar

import torch
from torch import Tensor, nn

Tensors = tuple[Tensor, ...]
M = TypeVar("M", bound=nn.Module)


def assert_close(actual: Tensor, expected: Tensor, relative: float, what: str = "value") -> None:
    """The largest difference must be at most ``relative`` times the largest element of ``expected``.

    >>> assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]), 0.1)
    Traceback (most recent call last):
    ...
    AssertionError: value: relative error 0.2 > 0.1
    """
    assert actual.shape == expected.shape, f"{what}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if expected.numel() == 0:
        return
    size = max(float(expected.detach().abs().max()), torch.finfo(expected.dtype).tiny)
    error = float((actual.detach() - expected.detach()).abs().max()) / size
    assert error <= relative, f"{what}: relative error {error:.3g} > {relative:.3g}"


def gradients(value: Tensor, inputs: Iterable[Tensor]) -> Tensors:
    """Gradients of a fixed linear function of ``value`` with respect to ``inputs``; zero where one does not matter."""
    inputs = tuple(inputs)
    if not value.requires_grad:
        return tuple(torch.zeros_like(tensor) for tensor in inputs)
    weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype, device=value.device).cos()
    total = (value * weights.reshape(value.shape)).sum()
    found = torch.autograd.grad(total, inputs, allow_unused=True, retain_graph=True)
    return tuple(torch.zeros_like(t) if d is None else d for t, d in zip(inputs, found, strict=True))


def assert_same_gradients(actual: Tensor, expected: Tensor, inputs: Iterable[Tensor], relative: float) -> None:
    """Two values must have the same gradients, compared tensor by tensor."""
    inputs = tuple(inputs)
    pairs = zip(gradients(actual, inputs), gradients(expected, inputs), strict=True)
    for number, (left, right) in enumerate(pairs):
        if bool((right == 0.0).all()):
            assert_close(left + 1.0, right + 1.0, relative, f"gradient {number}")
        else:
            assert_close(left, right, relative, f"gradient {number}")


def assert_estimate(
    draws: Tensor, expected: Tensor, sigmas: float = 4.0, *, other: Tensor | float = 0.0, what: str = "mean"
) -> None:
    """The mean of ``draws`` over the first axis must be ``expected``, within standard errors.

    Args:
        draws: (n, ...), independent along the first axis.
        expected: (...).
        sigmas: number of standard errors.
        other: the standard error of ``expected``, if it is also an estimate.
        what: name for the message.
    """
    _assert_within(draws.detach().mean(0), _error(draws.detach()), expected, sigmas, other, what)


def assert_uncorrelated(draws: Tensor, others: Tensor, sigmas: float = 5.0) -> None:
    """Draws (n, a) and (n, b) must have no covariance, within standard errors.

    >>> x, y = torch.randn(2, 1000, 3)
    >>> assert_uncorrelated(x, y)
    >>> "standard errors off" in message_of(AssertionError, lambda: assert_uncorrelated(x, y + 0.5 * x))
    True
    """
    products, error = _products(draws.detach() - draws.detach().mean(0), others.detach() - others.detach().mean(0))
    _assert_within(products, error, torch.zeros_like(products), sigmas, what="covariance")


def assert_moments(draws: Tensor, mean: Tensor, covariance: Tensor, sigmas: float = 5.0) -> None:
    """The draws (n, d) must have this mean (d) and covariance (d, d), within standard errors."""
    assert_estimate(draws, mean, sigmas)
    centred = draws.detach() - mean.detach()
    _assert_within(*_products(centred, centred), covariance, sigmas, what="covariance")


def assert_same_law(draws: Tensor, others: Tensor, sigmas: float = 5.0) -> None:
    """Two sets of draws (n, d) must have the same mean and the same covariance, within standard errors."""
    draws, others = draws.detach(), others.detach()
    centre = others.mean(0)
    assert_estimate(draws, centre, sigmas, other=_error(others))
    expected, other = _products(others - centre, others - centre)
    _assert_within(*_products(draws - centre, draws - centre), expected, sigmas, other, what="covariance")


def _error(draws: Tensor) -> Tensor:
    """The standard error of a mean over the first axis."""
    return draws.std(0) / sqrt(draws.shape[0])


def _products(draws: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Means of the products of draws (n, a) and (n, b), and their standard errors: (a, b) each.

    Law: the mean and the standard error of ``draws[:, :, None] * others[:, None]``, which would have n a b elements.

    >>> x, y = torch.randn(50, 3).double(), torch.randn(50, 2).double()
    >>> both = x[:, :, None] * y[:, None]
    >>> [torch.allclose(*pair) for pair in zip(_products(x, y), (both.mean(0), _error(both)), strict=True)]
    [True, True]
    """
    count, draws, others = draws.shape[0], draws.double(), others.double()
    mean = draws.mT @ others / count
    variance = draws.square().mT @ others.square() / count - mean.square()
    return mean, (variance.clamp_min(0.0) / (count - 1)).sqrt()


def _assert_within(
    found: Tensor, error: Tensor, expected: Tensor, sigmas: float, other: Tensor | float = 0.0, what: str = "mean"
) -> None:
    expected = expected.detach()
    both = (torch.as_tensor(other).square() + error.square()).sqrt()
    rounding = 1e-10 * (1.0 + expected.abs())
    excess = (found - expected).abs() / (both * sigmas + rounding)
    assert bool((excess <= 1.0).all()), f"{what}: {sigmas * float(excess.max()):.2f} standard errors off"


def message_of(error: type[Exception], call: Callable[[], object]) -> str:
    """The message of the error that ``call`` must raise.

    >>> message_of(ZeroDivisionError, lambda: 1 // 0)
    'integer division or modulo by zero'
    """
    try:
        call()
    except error as raised:
        return str(raised)
    raise AssertionError(f"expected {error.__name__}, but nothing was raised")


def perturb(module: M, spread: float = 0.3, seed: int = 0, *, buffers: bool = False) -> M:
    """Add Gaussian noise to every parameter, away from zeros and equal initial values; returns the module.

    With ``buffers``, those too, whole numbers by a step along their last axis (a permutation stays one): nothing is
    left of what a state_dict should bring.
    """
    generator = torch.Generator().manual_seed(seed)
    known = list(module.buffers()) if buffers else []
    moved = [*module.parameters(), *(buffer for buffer in known if buffer.is_floating_point())]
    with torch.no_grad():
        for buffer in known:
            if not buffer.is_floating_point() and buffer.ndim:
                buffer.copy_(buffer.roll(1, -1))
        for tensor in moved:
            noise = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
            tensor.add_(noise.to(tensor.device), alpha=spread)
    return module
