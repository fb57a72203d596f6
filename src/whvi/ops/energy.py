"""The sum that the KL divergences of diagonal Gaussians are made of, over many vectors in one step of autograd."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whvi.ops import fallback, registry
from whvi.ops.checks import HALF, check_pairs
from whvi.ops.recording import in_front, one_vmap, record, under_vmap, watched

_SHORT = 1 << 18  # numbers of all vectors, up to which fewer operations are worth a copy


def energy(
    means: Sequence[Tensor],
    log_stds: Sequence[Tensor],
    square: float,
    exponential: float,
    linear: float,
    constant: float = 0.0,
) -> Tensor:
    """Sum of ``square * m^2 + exponential * exp(2 l) + linear * l + constant`` over the elements of all pairs (m, l).

    A network has many short vectors, and what costs there is the number of operations: here it is one, with one node
    in the graph of autograd. It keeps the inputs for the backward pass, and under vmap exp(2 l) as well.

    Args:
        means, log_stds: as many tensors each; the two of a pair have one shape, and all have one dtype (float32,
            float64, bfloat16 or float16) and device.
        square, exponential, linear, constant: numbers.

    Returns:
        A scalar of that dtype; zero when there are no pairs.

    Law: energy(means, log_stds, a, b, c, d) is the sum over pairs of (a * m**2 + b * (2 * l).exp() + c * l + d).sum(),
    in value and in derivatives of any order.

    >>> energy([torch.tensor([1.0, 2.0])], [torch.zeros(2)], square=3.0, exponential=0.5, linear=-1.0)
    tensor(16.)
    """
    if not means and not log_stds:
        return torch.zeros(())
    coefficients = square, exponential, linear, constant
    try:  # both forms check what they are given; the kernel leaves it to others to say what is wrong
        if one_vmap() and means[0].dtype not in HALF:
            check_pairs(means, log_stds)
            return under_vmap(_alone, _rows, coefficients, len(means), *means, *log_stds)
        if watched() or means[0].dtype in HALF:
            return fallback.energy(means, log_stds, *coefficients)
        result: Tensor = record(_Energy, coefficients, len(means), *means, *log_stds)
        return result
    except (RuntimeError, AttributeError, TypeError, IndexError):
        check_pairs(means, log_stds)
        raise


class _Energy(torch.autograd.Function):
    """The pairs as all means, then all log_stds. Only plain eager execution gets here."""

    @staticmethod
    def forward(coefficients: tuple[float, ...], count: int, *vectors: Tensor) -> Tensor:
        return registry.energy(vectors[:count], vectors[count:], *coefficients)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.coefficients, ctx.count, *vectors = inputs
        ctx.save_for_backward(*vectors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        vectors, count = ctx.saved_tensors, ctx.count
        differentiable = torch.is_grad_enabled() or watched()
        operator = fallback.energy_backward if differentiable else registry.energy_backward
        return None, None, *operator(grads[0], vectors[:count], vectors[count:], *ctx.coefficients)


def _alone(coefficients: tuple[float, ...], count: int, *vectors: Tensor) -> Tensor:
    """Of vectors that vmap has no axis for."""
    return energy(vectors[:count], vectors[count:], *coefficients)


def _rows(info: Any, in_dims: Sequence[int | None], *inputs: Any) -> tuple[Tensor, int]:
    """The rule for vmap: R sums at once."""
    return record(_EnergyRows, *inputs[:2], *in_front(in_dims[2:], inputs[2:], info.batch_size)), 0


class _EnergyRows(torch.autograd.Function):
    """The pairs of R models as in ``_Energy``, each vector (R, ...), to R sums."""

    @staticmethod
    def forward(ctx: Any, coefficients: tuple[float, ...], count: int, *vectors: Tensor) -> Tensor:
        square, exponential, linear, constant = ctx.coefficients = coefficients
        rows = [_flat(vector) for vector in vectors]
        means, log_stds = rows[:count], rows[count:]
        if sum(mean.numel() for mean in means) <= _SHORT:
            means, log_stds = [torch.cat(means, 1)], [torch.cat(log_stds, 1)]
        variances = [log_std.exp().square_() for log_std in log_stds]
        ctx.save_for_backward(*vectors, *variances)
        ctx.count = count
        parts = [
            square * m.square().sum(1) + exponential * v.sum(1) + linear * s.sum(1) + constant * m.shape[1]
            for m, s, v in zip(means, log_stds, variances, strict=True)
        ]
        return sum(parts[1:], parts[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        square, exponential, linear, _ = ctx.coefficients
        saved, count = ctx.saved_tensors, ctx.count
        means, log_stds, variances = saved[:count], saved[count : 2 * count], saved[2 * count :]
        if torch.is_grad_enabled() or watched():
            variances = [(2 * _flat(log_std)).exp() for log_std in log_stds]
        grad = grads[0].unsqueeze(1)
        by_square, by_exponential, by_linear = (2 * square) * grad, (2 * exponential) * grad, linear * grad
        parts = [torch.addcmul(by_linear, by_exponential, variance) for variance in variances]
        if len(parts) < count:
            parts = parts[0].split([_flat(log_std).shape[1] for log_std in log_stds], 1)
        return (
            None,
            None,
            *((by_square * _flat(mean)).view(mean.shape) for mean in means),
            *(part.reshape(log_std.shape) for part, log_std in zip(parts, log_stds, strict=True)),
        )


def _flat(vector: Tensor) -> Tensor:
    """(R, ...) as (R, numbers)."""
    return vector.flatten(1) if vector.ndim > 1 else vector.unsqueeze(1)
