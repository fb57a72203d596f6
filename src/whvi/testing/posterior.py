"""The contract of a posterior, against densities from torch.distributions."""

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import NamedTuple
from unittest import SkipTest

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal
from torch.func import functional_call, jacrev, vmap

from whvi.errors import UnsupportedError
from whvi.inference.seeds import start_generators
from whvi.ops import draw_seed
from whvi.posterior import GaussianPrior, PlanarFlow, Posterior, Prior
from whvi.testing.compare import assert_close, assert_estimate, assert_moments, message_of, perturb

CHUNK = 100_000


class DensePrior(Prior):
    """N(0, P) for any P, computed the plain way; slow, and independent of every shortcut.

    Args:
        covariance: P, (D, D), or (K, D, D) for K independent vectors.
    """

    def __init__(self, covariance: Tensor) -> None:
        super().__init__()
        self.covariance = covariance

    def quadratic(self, z: Tensor) -> Tensor:
        """z^T P^-1 z: (..., D) -> (...)."""
        precision: Tensor = torch.linalg.inv(self.covariance)
        return torch.einsum("...i,...ij,...j->...", z, precision, z)

    def trace(self, std: Tensor) -> Tensor:
        """tr(P^-1 diag(std^2)): (..., D) -> (...)."""
        precision: Tensor = torch.linalg.inv(self.covariance)
        return (precision.diagonal(dim1=-2, dim2=-1) * std.square()).sum(-1)

    def log_det(self, event_shape: tuple[int, ...]) -> Tensor:
        """log det P, summed over the vectors."""
        log_det: Tensor = torch.linalg.slogdet(self.covariance)[1]
        return log_det.expand(event_shape[:-1]).sum()

    def rsample(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        """Draws of that shape."""
        noise = torch.randn(shape, generator=generator, dtype=self.covariance.dtype)
        return torch.einsum("...ij,...j->...i", torch.linalg.cholesky(self.covariance), noise)


class PriorCase(NamedTuple):
    """A prior, and its covariance over one vector, (D, D), or over each of K, (K, D, D), made without it."""

    prior: Prior
    covariance: Tensor


class PosteriorContract:
    """Invariants of a posterior. A subclass gives the fixture ``posterior``: float64, few elements, no special values.

    ``analytic``: True when ``kl`` is exact, False when it is an unbiased estimate, None when it is zero by convention.
    """

    analytic: bool | None = True
    samples = 20_000
    """Draws of a Monte Carlo estimate."""
    estimates = 200
    """Calls of ``kl`` that are averaged when it is an estimate."""

    def prior_cases(self, posterior: Posterior) -> list[PriorCase]:
        """Priors that the KL is checked with."""
        size = posterior.event_shape[-1]
        dense = torch.diag(torch.linspace(0.5, 2.0, size, dtype=torch.float64)) + 0.2
        identity = torch.eye(size, dtype=torch.float64)
        return [PriorCase(GaussianPrior(0.7), 0.7 * identity), PriorCase(DensePrior(dense), dense)]

    def draws_with_density(
        self, posterior: Posterior, samples: int, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Draws (samples, *event_shape) and their log density (samples,); a new kind gives its own here."""
        return draws_with_density(posterior, samples, generator)

    def test_shapes(self, posterior: Posterior) -> None:
        """rsample: (*shape, *event_shape); mean: event_shape; kl: a scalar."""
        event = posterior.event_shape
        assert posterior.mean.shape == event
        for shape in ((), (3,), (2, 0), (2, 1, 4)):
            assert posterior.rsample(shape).shape == (*shape, *event)
        assert posterior.kl(GaussianPrior()).shape == ()

    def test_draws_have_the_mean_and_covariance(self, posterior: Posterior) -> None:
        """Sample moments == mean and covariance_root, over all elements, so independence along axes is covered."""
        draws = posterior.rsample((self.samples,), torch.Generator().manual_seed(1)).detach().flatten(1)
        mean = posterior.mean.detach().flatten()
        if isinstance(posterior, PlanarFlow):
            assert "rsample" in message_of(UnsupportedError, posterior.covariance_root)
            assert_estimate(draws, mean, other=draws.std(0) * posterior.mean_samples**-0.5)
        else:
            assert_moments(draws, mean, _covariance(posterior))

    def test_draws_repeat_and_differ(self, posterior: Posterior) -> None:
        """A seed or a generator repeats the draws; other seeds and offsets give others, if there is more than one."""
        seed = torch.tensor(5)
        first = posterior.rsample((4,), seed=seed)
        assert torch.equal(first, posterior.rsample((4,), seed=seed))
        same = [posterior.rsample((4,), torch.Generator().manual_seed(9)) for _ in range(2)]
        assert torch.equal(*same)
        others = posterior.rsample((4,), seed=seed + 1), posterior.rsample((4,), seed=seed, offset=1 << 20)
        if self.analytic is None:
            assert all(torch.equal(first, other) for other in others)
        else:
            assert not any(torch.equal(first, other) for other in others)
            assert len(first.detach().flatten().unique()) == first.numel()

    def test_draws_are_differentiable(self, posterior: Posterior) -> None:
        """Gradients of a draw with fixed noise == finite differences, for every parameter."""
        seed = torch.tensor(5)
        _gradcheck(posterior, lambda q: q.rsample((2,), seed=seed))

    def test_kl_is_differentiable(self, posterior: Posterior) -> None:
        """Gradients of the KL with fixed noise == finite differences, for every parameter."""
        for prior, _ in self.prior_cases(posterior):
            _gradcheck(posterior, _fixed_kl(prior))

    def test_kl_is_the_monte_carlo_estimate(self, posterior: Posterior) -> None:
        """kl == E_q[log q - log p], both densities made independently, within four standard errors."""
        priors, covariances = zip(*self.prior_cases(posterior), strict=True)
        if self.analytic is None:
            assert all(posterior.kl(prior) == 0.0 for prior in priors)
            raise SkipTest("a point has no density: its KL is zero by convention")
        found = log_ratios(self.draws_with_density, posterior, covariances, self.samples)
        for prior, values in zip(priors, found, strict=True):
            if self.analytic:
                assert posterior.kl(prior) >= 0.0
                assert_estimate(values, posterior.kl(prior), what="kl")
            else:
                with torch.no_grad():
                    calls = torch.stack([posterior.kl(prior) for _ in range(self.estimates)])
                assert_estimate(values, calls.mean(), other=calls.std() * len(calls) ** -0.5, what="kl")

    def test_kl_to_itself_is_zero(self, posterior: Posterior) -> None:
        """A prior that equals q, except its mean of zero: KL is half the squared distance of the means, or zero."""
        if not self.analytic:
            raise SkipTest("the covariance or the exact KL of this posterior is not known")
        root = posterior.covariance_root().detach()
        prior, moved = DensePrior(root @ root.mT), copy.deepcopy(posterior)
        with torch.no_grad():
            moved.mean.zero_()
        assert abs(moved.kl(prior).item()) < 1e-10
        distance = 0.5 * prior.quadratic(posterior.mean).sum()
        assert_close(posterior.kl(prior), distance, 1e-10)

    def test_copies_are_equal(self, posterior: Posterior) -> None:
        """deepcopy, pickle and state_dict, also after use, give the same distribution."""
        posterior.rsample((2,)).sum().backward()
        posterior.kl(GaussianPrior())
        seed = torch.tensor(3)
        expected, distance = posterior.rsample((2,), seed=seed), _fixed_kl(GaussianPrior())(posterior)
        loaded = perturb(copy.deepcopy(posterior), 1.0, buffers=True)
        assert not torch.equal(loaded.rsample((2,), seed=seed), expected)
        assert not any(isinstance(value, Tensor) for part in posterior.modules() for value in vars(part).values())
        loaded.load_state_dict(posterior.state_dict())
        for other in (copy.deepcopy(posterior), pickle.loads(pickle.dumps(posterior)), loaded):
            assert torch.equal(other.rsample((2,), seed=seed), expected)
            assert torch.equal(_fixed_kl(GaussianPrior())(other), distance)

    def test_other_precisions(self, posterior: Posterior) -> None:
        """.to(dtype) keeps the distribution; half precision is stored, and computed in float32."""
        seed = draw_seed(torch.Generator().manual_seed(2))
        expected, distance = posterior.rsample((3,), seed=seed), _fixed_kl(GaussianPrior())(posterior)
        for dtype, relative in ((torch.float32, 1e-5), (torch.bfloat16, 0.1)):
            other = copy.deepcopy(posterior).to(dtype)
            draws = other.rsample((3,), seed=seed)
            assert draws.dtype == torch.float32
            assert_close(draws.double(), expected, relative)
            assert_close(1.0 + _fixed_kl(GaussianPrior())(other).double(), 1.0 + distance, relative, "kl")


Sampler = Callable[[Posterior, int, torch.Generator], tuple[Tensor, Tensor]]


def log_ratios(
    sampler: Sampler, posterior: Posterior, covariances: Sequence[Tensor], samples: int
) -> tuple[Tensor, ...]:
    """log q(z) - log p(z) at draws of q, for a prior of each covariance: (samples,) each."""
    generator = torch.Generator().manual_seed(4)
    chunks = []
    for start in range(0, samples, CHUNK):
        with torch.no_grad():
            z, log_q = sampler(posterior, min(CHUNK, samples - start), generator)
            priors = (MultivariateNormal(z.new_zeros(z.shape[-1]), covariance) for covariance in covariances)
            chunks.append(torch.stack([log_q - prior.log_prob(z).reshape(len(z), -1).sum(1) for prior in priors]))
    return torch.cat(chunks, 1).unbind()


def draws_with_density(posterior: Posterior, samples: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws (samples, *event_shape) and their log density (samples,), by torch.distributions and autograd.

    A flow has the density of its base times the determinant of the Jacobian that autograd finds.
    """
    if isinstance(posterior, PlanarFlow):
        start, log_q = draws_with_density(posterior.base, samples, generator)
        jacobian = vmap(jacrev(lambda z: posterior.push(z)[0]))(start)
        size = start[0].numel()
        return posterior.push(start)[0], log_q - torch.linalg.slogdet(jacobian.reshape(samples, size, size))[1]
    draws = posterior.rsample((samples,), generator)
    law = MultivariateNormal(posterior.mean.flatten(), _covariance(posterior))
    log_density: Tensor = law.log_prob(draws.flatten(1))
    return draws, log_density


def _covariance(posterior: Posterior) -> Tensor:
    """Of all elements: (n, n)."""
    root = posterior.covariance_root().detach()
    vectors = (root @ root.mT).reshape(-1, root.shape[-2], root.shape[-2])
    whole: Tensor = torch.block_diag(*vectors)
    return whole


def _fixed_kl(prior: Prior) -> Callable[[Posterior], Tensor]:
    """kl with the same noise in every call."""

    def value(posterior: Posterior) -> Tensor:
        start_generators(6)
        return posterior.kl(prior)

    return value


class _Call(torch.nn.Module):
    """A function of a posterior as a module, so that its parameters can be replaced."""

    def __init__(self, posterior: Posterior, function: Callable[[Posterior], Tensor]) -> None:
        super().__init__()
        self.posterior = posterior
        self.function = function

    def forward(self) -> Tensor:
        """The value."""
        return self.function(self.posterior)


def _gradcheck(posterior: Posterior, function: Callable[[Posterior], Tensor]) -> None:
    call = _Call(posterior, function)
    names = [name for name, _ in call.named_parameters()]
    values = [parameter.detach().clone().requires_grad_() for parameter in call.parameters()]

    def at(*parameters: Tensor) -> Tensor:
        made: Tensor = functional_call(call, dict(zip(names, parameters, strict=True)), ())
        return made + 0.0 * sum(p.sum() for p in parameters)  # a parameter that does not matter has gradient zero

    assert torch.autograd.gradcheck(at, values, fast_mode=True)
