"""Train Gaussian processes on simulators: random features with each kind of posterior, inducing points, exact ones."""

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, log, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import whvi
from whvi.errors import ArgumentError
from whvi.inference import SVI, Checkpoint, Every, Moment, Progress
from whvi.likelihoods import Gaussian
from whvi.models import RandomFeatureGP
from whvi.scaling import Scaling
from whvi_paper.data import LoadedDataset, load
from whvi_paper.jobs import Inputs, Report, Results
from whvi_paper.processes import inducing
from whvi_paper.processes.optimisation import Optimisation

TRAINING_SHARE = 0.2
"""The paper's: a fifth to train with."""
TEST_ROWS = 2048
"""Rows whose features are held at a time."""
POSTERIORS = {
    ("vi", "diagonal"): "mean-field", ("vi", "full"): "full",
    ("whvi", "diagonal"): "whvi", ("whvi", "full"): "whvi-full",
}  # fmt: skip


class Parts(NamedTuple):
    """Rows to train with and to test with: inputs (N, F) in the unit cube, standardised outputs (N, 1); float32."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor


def divided(data: LoadedDataset, seed: int) -> Parts:
    """A random fifth to train with. Outputs are standardised by the training rows."""
    x, y = np.asarray(data.x, dtype=np.float64), np.asarray(data.y, dtype=np.float64)
    x = (x - x.min(0)) / (x.max(0) - x.min(0))
    rows = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(rows, [int(TRAINING_SHARE * len(x))])
    y = Scaling.of(y[train]).forward(y)
    return Parts(*(torch.from_numpy(part).float() for part in (x[train], y[train], x[test], y[test])))


def weight_parameters(side: int, covariance: str) -> int:
    """Numbers that WHVI optimises for side^2 features: two scales, means, and variances or a triangle.

    >>> weight_parameters(64, "diagonal"), weight_parameters(64, "full")
    (256, 2272)
    """
    return 2 * side + (2 * side if covariance == "diagonal" else side * (side + 3) // 2)


def features_for(parameters: int, covariance: str) -> int:
    """The fewest features, an even number, whose weights have at least so many parameters of their own.

    >>> features_for(256, "diagonal"), features_for(2272, "full")
    (128, 66)
    """
    count = parameters / 2 if covariance == "diagonal" else (sqrt(9 + 8 * parameters) - 3) / 2
    whole = ceil(count - 1e-9)
    return whole + whole % 2


def train(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    """The records of processes, one after the other. A ``jobs.Job`` calls it."""
    found = []
    for place, one in enumerate(inputs):
        if one["method"] not in METHODS:
            raise ArgumentError(f"method {one['method']!r} is unknown; use one of: {', '.join(METHODS)}")
        data = load(one["dataset"])
        share = partial(_share, report, place, len(inputs))
        results = METHODS[one["method"]](one, divided(data, one["seed"]), folder / str(place), share)
        metrics = {name: round(value, 6) for name, value in results["metrics"].items()}
        found.append({**results, "metrics": metrics, "data_sha256": data.sha256})
        share(1.0)
    return found


def random_features(one: Inputs, parts: Parts, folder: Path, report: Report) -> dict[str, Any]:
    """f = phi . w: the matrix of w is structured ("whvi"), or there are fewer of them and they are not ("vi")."""
    settings, configuration, wanted = Optimisation.of(one), one["configuration"], _wanted(one)
    features = one["side"] ** 2 if one["method"] == "whvi" else features_for(wanted, one["covariance"])
    with torch.random.fork_rng():
        torch.manual_seed(one["seed"])
        model = RandomFeatureGP(
            parts.x.shape[1],
            features,
            posterior=POSTERIORS[one["method"], one["covariance"]],
            projection=configuration["projection"],
            learn=configuration["learn"],
        )
    likelihood = Gaussian(variance=settings.noise_variance, frozen_steps=settings.frozen_steps)

    def watch(moment: Moment) -> None:
        report(moment.step / settings.steps)

    whvi.fit(
        model,
        likelihood,
        (parts.x, parts.y),
        steps=settings.steps,
        algorithm=SVI(settings.learning_rate, schedule=settings.schedule),
        batch_size=settings.batch_size,
        seed=one["seed"],
        callbacks=[
            Every(max(1, settings.steps // 50), watch),
            Checkpoint(folder, max(1, settings.steps // 4)),
            Progress(False),
        ],
    )
    f = functions(model, parts.test_x, one["samples"], one["seed"])
    count = sum(parameter.numel() for parameter in model.weights.parameters())
    return {"metrics": mixture_metrics(f, likelihood, parts.test_y), "parameters": count, "features": features}


def functions(model: RandomFeatureGP, x: Tensor, samples: int, seed: int) -> Tensor:
    """Functions of one output that the model draws, at rows (N, F): (samples, N).

    At a fixed draw they are linear in phi, so that phi is computed once for all, unlike in ``whvi.predict``.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad(), whvi.sampling(model, samples, generator) as draws:
        draw = draws[model.weights]
        weights: Tensor = model.weights.weight_at(draw)[:, 0]  # type: ignore[operator]  # a layer
        return torch.cat([weights.to(x) @ model.phi(part).mT for part in x.split(TEST_ROWS)], dim=1)


def mixture_metrics(f: Tensor, likelihood: Gaussian, y: Tensor) -> dict[str, float]:
    """RMSE of the mean and MNLL of the mixture of functions f (S, N), for targets (N, 1); and the noise."""
    with torch.no_grad():
        f, y = f.double().unsqueeze(-1), y.double()
        rmse = (f.mean(0) - y).square().mean().sqrt()
        mnll = log(len(f)) - likelihood.log_prob(f, y).logsumexp(0).mean()
    return {"rmse": float(rmse), "mnll": float(mnll), "noise": likelihood.noise}


def inducing_points(one: Inputs, parts: Parts, folder: Path, report: Report) -> dict[str, Any]:
    """Inducing points with at least as many parameters as WHVI has."""
    inputs, covariance = parts.x.shape[1], one["covariance"]
    points = inducing.points_for(_wanted(one), inputs, covariance)
    predict = inducing.sparse(parts.x, parts.y.squeeze(1), points, covariance, Optimisation.of(one), report)
    count = inducing.variational_parameters(points, inputs, covariance)
    return {"metrics": predict(parts.test_x).metrics(parts.test_y.squeeze(1)), "parameters": count, "points": points}


def exact(one: Inputs, parts: Parts, folder: Path, report: Report) -> dict[str, Any]:
    """An exact process on the first rows of the training part; it has no parameters but those of kernel and noise."""
    rows = one["rows"]
    predict = inducing.exact(parts.x[:rows], parts.y[:rows].squeeze(1), Optimisation.of(one), report)
    return {"metrics": predict(parts.test_x).metrics(parts.test_y.squeeze(1)), "rows": min(rows, len(parts.x))}


METHODS: dict[str, Callable[[Inputs, Parts, Path, Report], dict[str, Any]]] = {
    "whvi": random_features, "vi": random_features, "svgp": inducing_points, "exact": exact,
}  # fmt: skip


def _wanted(one: Inputs) -> int:
    """Parameters of WHVI, which the others have at least."""
    return weight_parameters(one["side"], one["covariance"])


def _share(report: Report, place: int, count: int, done: float) -> None:
    report((place + done) / count)
