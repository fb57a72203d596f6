"""Priors over a vector: Gaussians, mostly with mean zero."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import log, prod

import torch
from torch import Tensor, nn

from whvi.annotations import checked_but
from whvi.arguments import positive_number
from whvi.errors import ArgumentError
from whvi.ops import fwht
from whvi.ops.precision import wide


class Prior(nn.Module, ABC):
    """N(0, P), defined by the terms that KL divergences need; ``centred`` allows another mean."""

    @abstractmethod
    def quadratic(self, z: Tensor) -> Tensor:
        """z^T P^-1 z: (..., D) -> (...)."""

    @abstractmethod
    def trace(self, std: Tensor) -> Tensor:
        """tr(P^-1 diag(std^2)): (..., D) -> (...)."""

    @abstractmethod
    def log_det(self, event_shape: tuple[int, ...]) -> Tensor | float:
        """log det P for a tensor of that shape: vectors on the last axis, independent on the axes before it."""

    @abstractmethod
    def rsample(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        """Draws of that shape, vectors on the last axis."""

    def centred(self, z: Tensor) -> Tensor:
        """z minus the mean of the prior, which is zero for most."""
        return z

    def given(self, gain: Callable[[], Tensor]) -> "Prior":
        """This prior for a weight of the given gain (see :class:`ConstantWeightVariance`); most do not depend on it."""
        return self


class GaussianPrior(Prior):
    """N(0, variance * I), with a fixed variance or, with ``learned=True``, a learned one.

    Law: quadratic(z) == (z * z).sum(-1) / variance.

    >>> GaussianPrior(4.0).quadratic(torch.tensor([2.0, 2.0]))
    tensor(2.)
    """

    @checked_but("variance")
    def __init__(self, variance: float = 1.0, *, learned: bool = False) -> None:
        super().__init__()
        self.initial_variance = positive_number("the prior variance", variance)
        self.learned = learned
        self.log_variance = nn.Parameter(torch.tensor(log(variance))) if learned else None

    @property
    def variance(self) -> Tensor | float:
        """The variance: a number, or a scalar tensor if it is learned."""
        return self.initial_variance if self.log_variance is None else wide(self.log_variance).exp()

    def quadratic(self, z: Tensor) -> Tensor:
        """|z|^2 / variance: (..., D) -> (...)."""
        square = z.dot(z) if z.ndim == 1 else (z * z).sum(-1)  # on small vectors the number of operations is the cost
        return square if self.log_variance is None and self.initial_variance == 1.0 else square / self.variance

    def trace(self, std: Tensor) -> Tensor:
        """|std|^2 / variance: (..., D) -> (...)."""
        return self.quadratic(std)

    def log_det(self, event_shape: tuple[int, ...]) -> Tensor | float:
        """n log(variance)."""
        each = log(self.initial_variance) if self.log_variance is None else wide(self.log_variance)
        return prod(event_shape) * each

    def rsample(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        """Draws of that shape."""
        learned = self.log_variance
        dtype, device = (None, None) if learned is None else (learned.dtype, learned.device)
        return torch.randn(shape, generator=generator, device=device, dtype=dtype) * self.variance**0.5

    def extra_repr(self) -> str:
        """The variance, for ``print``."""
        if self.log_variance is None:
            return f"variance={self.initial_variance:g}"
        return f"variance={float(self.log_variance.detach().exp()):g}, learned"


class ConstantWeightVariance(Prior):
    """The prior on g that gives all weights the same marginal variance, for any scales.

    W_ij = s1_i s2_j (H g)_(i xor j) / sqrt(D), so only H g matters: H g ~ N(0, diag(spectrum)) gives W_ij the variance
    s1_i^2 s2_j^2 spectrum_(i xor j) / D. The spectrum is chosen so that its mean over each set i xor j = m of a whole
    block is ``weight_variance``; with scales of constant size every single entry has that variance. It needs a
    structure [S] H G H [S] with scales that are optimised, not inferred.
    """

    @checked_but("weight_variance")
    def __init__(self, weight_variance: float) -> None:
        super().__init__()
        self.weight_variance = positive_number("the weight variance", weight_variance)

    def given(self, gain: Callable[[], Tensor]) -> Prior:
        """The prior on g for a weight whose entries i xor j = m have mean square ``gain()[m]`` where (H g)_m = 1."""
        return SpectralPrior(self.weight_variance / gain())

    def quadratic(self, z: Tensor) -> Tensor:
        """Raises an error: it needs the scales, see ``given``."""
        raise self._unresolved()

    def trace(self, std: Tensor) -> Tensor:
        """Raises an error: it needs the scales, see ``given``."""
        raise self._unresolved()

    def log_det(self, event_shape: tuple[int, ...]) -> Tensor | float:
        """Raises an error: it needs the scales, see ``given``."""
        raise self._unresolved()

    def rsample(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        """Raises an error: it needs the scales, see ``given``."""
        raise self._unresolved()

    def extra_repr(self) -> str:
        """The variance, for ``print``."""
        return f"weight_variance={self.weight_variance:g}"

    def _unresolved(self) -> ArgumentError:
        return ArgumentError("ConstantWeightVariance depends on the scales of a layer: call given(gain) first")


class SpectralPrior(Prior):
    """H g ~ N(0, diag(spectrum)) with the orthonormal H, so P = H diag(spectrum) H.

    Args:
        spectrum: (..., D), positive.
    """

    def __init__(self, spectrum: Tensor) -> None:
        super().__init__()
        self.spectrum = spectrum

    def quadratic(self, z: Tensor) -> Tensor:
        """Sum of (H z)^2 / spectrum: (..., D) -> (...)."""
        return (fwht(z, scale=z.shape[-1] ** -0.5).square() / self.spectrum).sum(-1)

    def trace(self, std: Tensor) -> Tensor:
        """P^-1 has the constant diagonal mean(1 / spectrum): (..., D) -> (...)."""
        return std.square().sum(-1) * self.spectrum.reciprocal().mean(-1)

    def log_det(self, event_shape: tuple[int, ...]) -> Tensor | float:
        """Sum of log(spectrum)."""
        return self.spectrum.log().expand(event_shape).sum()

    def rsample(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        """Draws of that shape."""
        noise = torch.randn(shape, generator=generator, dtype=self.spectrum.dtype, device=self.spectrum.device)
        return fwht(noise * self.spectrum.sqrt(), scale=shape[-1] ** -0.5)
