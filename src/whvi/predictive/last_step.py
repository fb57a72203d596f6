"""The last step of prediction without samples: from the moments of the network's output to targets."""

from collections.abc import Iterator
from functools import cache
from random import Random
from statistics import NormalDist, fmean

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.arguments import whole_number
from whvi.ensemble import Ensemble
from whvi.errors import InputTypeError
from whvi.likelihoods import Gaussian, Likelihood
from whvi.nn.model import bayesian_layers
from whvi.predictive.moments import AT_ONCE, moments_of
from whvi.predictive.sources import DEFAULT_SAMPLES, Source
from whvi.rows import Inputs


def points(count: int, features: int, like: Tensor) -> Tensor:
    """Points that stand for a standard normal: (count, features), always the same.

    Each feature has the quantiles in the middle of ``count`` equal parts, in an order of its own (a Latin hypercube),
    scaled to variance 1.

    >>> z = points(64, 3, torch.zeros(()))
    >>> bool((z.mean(0).abs() < 1e-6).all() and ((z.square().mean(0) - 1).abs() < 1e-5).all())
    True
    """
    return torch.tensor(_points(count, features), dtype=like.dtype, device=like.device)


@cache
def _points(count: int, features: int) -> list[list[float]]:
    if count == 1:
        return [[0.0] * features]
    quantiles = [NormalDist().inv_cdf((i + 0.5) / count) for i in range(count)]
    size = fmean(z * z for z in quantiles) ** 0.5
    order = Random(0)
    columns = [order.sample([z / size for z in quantiles], count) for _ in range(features)]
    return [list(point) for point in zip(*columns, strict=True)]


class Moments(nn.Module):
    """A network's prediction in one pass, as a module for ``torch.export`` and ONNX: x -> (mean, variance).

    Args:
        model: a network, or an ``Ensemble``; it becomes a submodule, and members of an ensemble are copied.
        likelihood: if given, the result is the mean and variance of targets, otherwise of the network's output. An
            ensemble's own likelihood is not used by default.
        samples: number of points that represent the distribution of the output, if the likelihood is not linear in it.

    Law: without a likelihood it is ``moments_of``; with one, mean and variance of
    ``whvi.predict(model, x, method="moments")``.

    >>> from whvi.nn import WHVILinear
    >>> module = Moments(nn.Sequential(WHVILinear(4, 16), nn.ReLU(), WHVILinear(16, 1)), Gaussian(variance=0.1))
    >>> mean, variance = torch.export.export(module, (torch.randn(10, 4),)).module()(torch.randn(10, 4))
    >>> bool((variance > 0.1).all())
    True
    """

    @checked
    def __init__(self, model: nn.Module, likelihood: Likelihood | None = None, samples: int = DEFAULT_SAMPLES) -> None:
        super().__init__()
        self.networks, self.likelihood = nn.ModuleList(networks_of(model)), likelihood
        self.samples = whole_number("samples", samples)
        self.eval()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(N, ...) -> (N, features) twice, or (N, outputs) with a likelihood."""
        means, variances = laws(self.networks, x)
        if self.likelihood is None:
            return means.mean(0), variances.mean(0) + means.var(0, correction=0)
        z = points(self.samples, means.shape[-1], means).unsqueeze(-2)
        f = means.unsqueeze(1) + variances.unsqueeze(1).sqrt() * z  # (M, S, N, features)
        mean, noise = self.likelihood.mean(f), self.likelihood.variance(f)
        average = mean.mean((0, 1))
        return average, (mean - average).square().mean((0, 1)) + noise.mean((0, 1))


def networks_of(model: nn.Module) -> list[nn.Module]:
    """The model, or the members of an ensemble."""
    return [model.member(i) for i in range(len(model))] if isinstance(model, Ensemble) else [model]


def laws(networks: nn.ModuleList | list[nn.Module], x: Tensor) -> tuple[Tensor, Tensor]:
    """Means and variances of several networks: (M, N, features) twice."""
    means, variances = zip(*(moments_of(network, x) for network in networks), strict=True)
    return torch.stack(means), torch.stack(variances)


class Points(Source):
    """Points of the distribution of outputs as functions, so that predictions from functions serve here.

    Args:
        model, likelihood, samples: as for ``whvi.predict``.
        smooth: of a Gaussian likelihood, add the variance of the output to that of the noise instead: a mixture over
            the noise alone, which is one Gaussian where the noise does not depend on the row.
    """

    group = 64

    def __init__(self, model: nn.Module, likelihood: Likelihood | None, samples: int | None, *, smooth: bool) -> None:
        self.module = model
        self.networks = networks_of(model)
        self.architecture = self.networks[0]
        self.layers, self.given, self.smooth = bayesian_layers(self.architecture), likelihood, smooth
        kind = self._likelihood([0])
        alone = smooth and isinstance(kind, Gaussian) and kind.kind != "input"
        self.each = 1 if alone else samples or DEFAULT_SAMPLES
        features = AT_ONCE if kind is None else min(kind.features, AT_ONCE)
        self._held = max(2, features) * len(self.networks)

    def count(self) -> int:
        """Points for each member."""
        return self.each * len(self.networks)

    def held(self) -> int:
        """Mean and variance of each network, or linear functions of an activation for each output."""
        return self._held

    def outputs(self, x: Inputs, groups: list[range], seeds: Tensor, draws: str) -> Iterator[Tensor]:
        """(functions, rows, features) for each group; members take turns."""
        if not isinstance(x, Tensor):
            raise InputTypeError(f"moments are for one tensor of inputs, got {type(x).__name__}; use method='samples'")
        means, variances = laws(self.networks, x)
        z = points(self.each, means.shape[-1], means)
        for group in groups:
            members, place = self._members(group), [function // len(self.networks) for function in group]
            one = len(self.networks) == 1  # which all functions share
            mean, variance = (means, variances) if one else (means[members], variances[members])
            f = mean + variance.sqrt() * z[place].unsqueeze(-2)
            yield self._with_noise(mean, variance, f, members) if self.smooth else f

    def likelihood(self, functions: range) -> Likelihood | None:
        """Of these functions; where the noise has taken in the variance, one that takes it as it is."""
        found = self._likelihood(self._members(functions))
        if self.smooth and isinstance(found, Gaussian):
            return Gaussian(found.outputs, "input", variance=1.0, learned=False, positions=found.positions)
        return found

    def _with_noise(self, mean: Tensor, variance: Tensor, f: Tensor, members: list[int]) -> Tensor:
        """Means of targets, and the logarithms of their variances."""
        likelihood = self._likelihood(members)
        assert isinstance(likelihood, Gaussian)
        likelihood.check(f)
        spread = likelihood.mean(variance) + likelihood.variance(f)
        return torch.cat((likelihood.mean(mean).expand_as(spread), spread.log()), -1)

    def _likelihood(self, members: list[int]) -> Likelihood | None:
        if self.given is None and isinstance(self.module, Ensemble):
            return self.module.likelihood(members)
        return self.given

    def _members(self, functions: range) -> list[int]:
        return [function % len(self.networks) for function in functions]
