"""The toy problem: noisy points on a random function of one input, and five ways to say what the function may be.

All methods fit one network, 1 - 128 - 128 - 1 with cosines. It is scaled so that N(0, 1) is a sensible prior for each
of its weights and biases: functions then vary by about one. The data are such a function with noise, and SGHMC samples
the posterior itself: its chains are of the hidden layers, with the last one integrated out (``collapsed``). The others
approximate it under the same prior; only WHVI has it for g, and chooses its scales.
"""

from collections.abc import Callable, Sequence
from math import exp, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import whvi
from whvi.errors import ArgumentError
from whvi.inference import (
    SGHMC,
    SVI,
    Algorithm,
    Callback,
    Checkpoint,
    Every,
    Fit,
    Moment,
    Progress,
    effective_sample_size,
    fit_ensemble,
    split_rhat,
)
from whvi.inference.schedules import CosineDecay
from whvi.likelihoods import Gaussian
from whvi.nn import MCDropout, MeanFieldLinear
from whvi.predictive import Ensemble
from whvi_paper.collapsed import Marginal
from whvi_paper.jobs import Inputs, Report, Results
from whvi_paper.networks.layers import WHVILinear

WIDTH = 128
INPUT_SCALE = 6.0
"""What x is multiplied by: functions vary over about a sixth of a unit."""
NOISE_VARIANCE = exp(-3.0)
"""Known to all methods: where a bound may choose it, noise explains what the function should."""
FLOWS, DROPOUT = 10, 0.4
RANGE, GAP = (-1.0, 2.0), (0.2, 0.8)
"""Where inputs come from, and the fifth of it where they are taken away."""
GRID = torch.linspace(-1.5, 2.5, 81).unsqueeze(-1)
LEVELS = tuple((i + 0.5) / 40 for i in range(40))
"""Of the quantiles that stand for a distribution, each for a 40th of it."""
BANDS = {0.95: (0.025, 0.975), 0.75: (0.125, 0.875)}
REPORTS = 100


class ToyData(NamedTuple):
    """The problem: (N, 1) inputs and targets, and the function on the grid (81)."""

    x: Tensor
    y: Tensor
    truth: Tensor


class Times(nn.Module):
    """A fixed multiple of x."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)."""
        return self.factor * x


class Cosine(nn.Module):
    """sqrt(2 / D) cos(x) of D numbers: their squares sum to about one.

    >>> Cosine()(torch.zeros(1, 2))
    tensor([[1., 1.]])
    """

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return sqrt(2.0 / x.shape[-1]) * torch.cos(x)


class UnitLinear(nn.Linear):
    """nn.Linear that starts at a draw of the prior: weights and biases from N(0, 1)."""

    def reset_parameters(self) -> None:
        """A new draw."""
        nn.init.normal_(self.weight)
        nn.init.normal_(self.bias)


Layer = Callable[[int, int], nn.Module]


def _structured(posterior: str) -> Layer:
    return lambda inputs, outputs: WHVILinear(inputs, outputs, posterior=posterior, weight_variance=1.0)


def _mean_field(inputs: int, outputs: int) -> nn.Module:
    return MeanFieldLinear(inputs, outputs, weight_variance=1.0)


def _dropout(inputs: int, outputs: int) -> nn.Module:
    return MCDropout(UnitLinear(inputs, outputs), DROPOUT if inputs > 1 else 0.0)  # x itself is never dropped


METHODS: dict[str, tuple[Layer, Layer]] = {
    "g-whvi": (_structured("diagonal"), _mean_field),
    "nf-whvi": (_structured(f"planar:{FLOWS}"), _mean_field),
    "mfg": (_mean_field, _mean_field),
    "mcd": (_dropout, _dropout),
    "sghmc": (UnitLinear, UnitLinear),
}
"""Name of a method: its two hidden layers, and its last one."""


def network(method: str) -> nn.Sequential:
    """The network under a method.

    >>> [sum(p.numel() for p in network(method).parameters()) for method in ("g-whvi", "nf-whvi")]  # and the noise: 1
    [1540, 4140]
    """
    if method not in METHODS:
        raise ArgumentError(f"method {method!r} is unknown; use one of: {', '.join(METHODS)}")
    hidden, last = METHODS[method]
    return nn.Sequential(Times(INPUT_SCALE), hidden(1, WIDTH), Cosine(), hidden(WIDTH, WIDTH), Cosine(), last(WIDTH, 1))


@torch.no_grad()
def make_data(seed: int) -> ToyData:
    """128 inputs from U[-1, 2] without those in the gap, and noisy values of a function drawn from the prior."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        function = network("sghmc")
        low, high = RANGE
        x = low + (high - low) * torch.rand(128, 1)
        x = x[((x < GAP[0]) | (x > GAP[1])).squeeze(-1)]
        return ToyData(x, function(x) + sqrt(NOISE_VARIANCE) * torch.randn(len(x), 1), function(GRID).squeeze(-1))


def train(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    """Fit a network for each of the inputs, and describe the functions it holds for likely. A ``jobs.Job`` calls it."""
    return [_train(one, folder / one["method"], report) for one in inputs]


def _train(one: Inputs, folder: Path, report: Report) -> Results:
    if "members" in one:
        return _train_members(one, folder, report)
    data, steps = make_data(one["data_seed"]), one["steps"]
    torch.manual_seed(one["seed"])
    model, noise = network(one["method"]), Gaussian(variance=NOISE_VARIANCE, frozen_steps=steps)
    sampled = one["method"] == "sghmc"
    result = whvi.fit(
        model[:-1] if sampled else model,
        Marginal(WIDTH, NOISE_VARIANCE) if sampled else noise,
        (data.x, data.y),
        steps=steps,
        algorithm=algorithm(one),
        batch_size=len(data.x),
        seed=one["seed"],
        callbacks=_callbacks(folder, steps, report),
    )
    functions = _functions(result, data, one)
    own = _chains(functions, one["chains"]) if sampled else {"elbo": round(_last_bound(result), 3)}
    count = sum(p.numel() for module in (model, noise) for p in module.parameters())
    return {"metrics": {"noise": noise.noise, **own, **describe(functions)}, "parameters": count}


def _train_members(one: Inputs, folder: Path, report: Report) -> Results:
    """Several networks from different starts, trained at once; what they hold for likely is mixed."""
    data, steps, members = make_data(one["data_seed"]), one["steps"], one["members"]
    result = fit_ensemble(
        lambda: network(one["method"]),
        Gaussian(variance=NOISE_VARIANCE, frozen_steps=steps),
        (data.x, data.y),
        members=members,
        steps=steps,
        algorithm=algorithm(one),
        batch_size=len(data.x),
        seed=one["seed"],
        callbacks=_callbacks(folder.with_name(f"{members}-{folder.name}"), steps, report),
    )
    functions = whvi.predict(result.posterior, GRID, one["functions"], seed=one["seed"]).samples().squeeze(-1)
    count = sum(p.numel() for p in network(one["method"]).parameters()) + 1
    return {"metrics": {"noise": sqrt(NOISE_VARIANCE), **describe(functions)}, "parameters": members * count}


def _functions(result: Fit, data: ToyData, one: Inputs) -> Tensor:
    """Draws of the posterior on the grid: (S, 81). Samples of hidden layers get a last layer each."""
    if not isinstance(result.posterior, Ensemble):
        return whvi.predict(result.posterior, GRID, one["functions"], seed=one["seed"]).samples().squeeze(-1)
    torch.manual_seed(one["seed"])
    known, elsewhere = (result.posterior.functions(x) for x in (data.x, GRID))
    return Marginal(WIDTH, NOISE_VARIANCE).functions(known, data.y, elsewhere)


def algorithm(one: Inputs) -> Algorithm:
    """Adam on the bound, its rate falling to zero; or the sampler."""
    if one["method"] != "sghmc":
        return SVI(one["learning_rate"], schedule=CosineDecay(one["steps"]), samples=one["draws"])
    names = ("step_size", "friction", "burn_in", "thin", "chains")
    return SGHMC(**{name: one[name] for name in names}, keep=one["steps"])


def _callbacks(folder: Path, steps: int, report: Report) -> list[Callback]:
    """Beside the steps: the share that is done is reported, and kept in a folder."""

    def tell(moment: Moment) -> None:
        report(moment.step / steps)

    return [Every(max(1, steps // REPORTS), tell), Checkpoint(folder, 5000), Progress(False)]


def _last_bound(result: Fit) -> float:
    """The bound, averaged over the last tenth of the run, in nats for all rows."""
    last = result.history.elbo[-max(1, len(result.history.elbo) // 10) :]
    return float(sum(last) / len(last))


def _chains(functions: Tensor, chains: int) -> dict[str, float]:
    """The worst split R-hat and effective sample size over the grid."""
    draws = functions.unflatten(0, (chains, -1))
    rhat, size = split_rhat(draws).max(), effective_sample_size(draws).min()
    return {"rhat": round(float(rhat), 4), "effective_sample_size": round(float(size), 1)}


def describe(functions: Tensor) -> dict[str, Any]:
    """Mean, bands and quantiles of S functions at each point of a grid: (S, G) -> lists of G numbers."""
    levels = [level for band in BANDS.values() for level in band] + [0.5]
    return {
        "mean": _rounded(functions.mean(0)),
        "bands": {f"{level:g}": _rounded(functions.quantile(level, 0)) for level in sorted(levels)},
        "quantiles": _rounded(quantiles(functions)),
    }


def quantiles(functions: Tensor) -> Tensor:
    """Quantiles at ``LEVELS``, which stand for the distribution at each point: (S, G) -> (40, G)."""
    return functions.quantile(torch.tensor(LEVELS, dtype=functions.dtype), 0)


def wasserstein(a: Tensor, b: Tensor) -> Tensor:
    """The Wasserstein distance of two distributions on a line, at each point of a grid, from samples of equal size.

    Law: exact for the distributions of the samples: the mean of the distances between samples in order. For
    ``quantiles`` of distributions it is the midpoint rule for the integral of |F^-1 - G^-1|.

    Shapes: (S, G), (S, G) -> (G).

    >>> wasserstein(torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0], [2.0]]))
    tensor([2.])
    """
    return (a.sort(0).values - b.sort(0).values).abs().mean(0)


def _rounded(values: Tensor) -> Any:
    """As lists of numbers with four decimals."""
    return (values.double() * 1e4).round().div(1e4).tolist()
