"""Train a network on all splits of a dataset at once, and measure it on the rows that were held out."""

from collections.abc import Sequence
from math import gcd
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from whvi.inference import Checkpoint, Every, Fit, Moment, Progress, fit_replicas
from whvi.inference.compiled import can_compile
from whvi.io import atomic, canonical
from whvi.likelihoods import Categorical, Gaussian, Likelihood
from whvi.predictive import predict
from whvi.predictive.calibration import coverage, ece
from whvi.predictive.metrics import error_rate
from whvi.scaling import Scaling
from whvi_paper import recipe
from whvi_paper.data import LoadedDataset, Split, load, split
from whvi_paper.jobs import Inputs, Report, Results
from whvi_paper.networks import narrow, network

CHECKPOINTS, CHECKPOINT_EVERY = 20, 5000
"""In a run, and the steps that there are between two at most."""
REPORTS = 200
COMPILED_FROM = 5000
"""Steps: shorter runs end before a compiler would have paid."""


def train(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    """The records of one network on several splits of one dataset, trained as replicas. A ``jobs.Job`` calls it."""
    first = inputs[0]
    settings, steps = first["configuration"], first["steps"]
    data = load(first["dataset"])
    raw = settings.get("targets") == "raw"
    tests = [Standardised(split(data, one["split"], settings["scaling"]), data.task, raw) for one in inputs]
    models, likelihoods = [], []
    layers = settings.get("layers", first["method"])
    for one in inputs:
        torch.manual_seed(one["seed"])
        model = network(layers, data.x.shape[1], outputs_of(data), one["depth"], one["width"])
        if "narrower_start" in settings:
            narrow(model, settings["narrower_start"])
        models.append(model)
        likelihoods.append(make_likelihood(data, settings))
    curve = Curve(folder / "curve.json", first.get("curve_every", 0))

    def watch(moment: Moment) -> None:
        report(moment.step / steps)
        if curve.every and moment.step % curve.every == 0:
            looks = (evaluate(*one, samples=16, seed=0) for one in zip(models, likelihoods, tests, strict=True))
            curve.add(moment.step, [look["mnll"] for look in looks])

    result = fit_replicas(
        models,
        likelihoods,
        [test.train for test in tests],
        steps=steps,
        algorithm=recipe.algorithm(first["method"], settings, steps),
        batch_size=settings["batch_size"],
        seeds=[one["seed"] for one in inputs],
        callbacks=[
            Every(gcd(max(1, steps // REPORTS), curve.every), watch),
            Checkpoint(folder / "checkpoint", max(1, min(CHECKPOINT_EVERY, steps // CHECKPOINTS))),
            Progress(False),
        ],
        compile=steps >= COMPILED_FROM and first["method"] != "nng" and can_compile(),
    )
    found = []
    for r, (one, model, likelihood, test) in enumerate(zip(inputs, models, likelihoods, tests, strict=True)):
        metrics = evaluate(model, likelihood, test, samples=one["samples"], seed=one["seed"])
        metrics["elbo"] = final_elbo(result, r) - len(test.train[0]) * test.log_volume
        count = sum(p.numel() for module in (model, likelihood) for p in module.parameters())
        points = {"curve": curve.of(r)} if curve.points else {}
        found.append({"metrics": metrics, "parameters": count, "data_sha256": data.sha256, **points})
    return found


class Curve:
    """Test MNLL of all replicas every so many steps (0: never). In a file, so that a run that goes on has it whole."""

    def __init__(self, path: Path, every: int) -> None:
        self.path, self.every = path, every
        self.points: dict[int, list[float]] = dict(canonical.parse(path.read_bytes())) if path.exists() else {}

    def add(self, step: int, values: list[float]) -> None:
        """One point; a run that went back to its checkpoint comes by again, with the same values."""
        self.points[step] = values
        atomic.write_json(self.path, sorted(self.points.items()))

    def of(self, replica: int) -> list[list[float]]:
        """The steps and values of one replica."""
        return [[step, values[replica]] for step, values in sorted(self.points.items())]


class Standardised:
    """A split whose targets are standardised for training, unless they are to be raw; metrics are on the data's scale.

    Law: densities change by the volume: log p(y) = log p(standardised y) - log_volume.
    """

    def __init__(self, parts: Split, task: str, raw: bool = False) -> None:
        (x, y), (test_x, test_y) = parts.train, parts.test
        self.scale = torch.ones(1, dtype=torch.float64)
        self.log_volume = 0.0
        if task == "regression" and not raw:
            scaling = Scaling.of(y.numpy(), correction=1)
            self.scale, self.log_volume = torch.from_numpy(scaling.scale), scaling.log_volume
            y, test_y = (torch.from_numpy(scaling.forward(part.numpy())).float() for part in (y, test_y))
        self.train, self.test = (x, y), (test_x, test_y)


@torch.no_grad()
def evaluate(
    model: nn.Module, likelihood: Likelihood, data: Standardised, *, samples: int, seed: int
) -> dict[str, float]:
    """Metrics on the test rows, on the scale of the data; MNLL is summed over outputs and averaged over rows."""
    x, y = data.test
    prediction = predict(model, x, samples, likelihood=likelihood, seed=seed)
    found: dict[str, Tensor | float] = {
        "mnll": float(prediction.mnll(y)) + data.log_volume,
        "expected_nll": float(prediction.expected_nll(y)) + data.log_volume,
    }
    if isinstance(likelihood, Gaussian):
        square = ((prediction.mean - y).double() * data.scale).square()
        spread = prediction.epistemic.double() * data.scale.square()
        found["rmse"] = square.mean().sqrt()
        found["rmse_of_samples"] = (square + spread).mean().sqrt()  # over all functions, as the authors' code has it
        found["coverage_90"] = coverage(*prediction.interval(0.9), y)
    else:
        found["error"] = error_rate(prediction.mean, y)
        found["ece"] = ece(prediction.mean, y)
    return {name: round(float(value), 6) for name, value in found.items()}


def final_elbo(result: Fit, replica: int) -> float:
    """The bound, averaged over the last tenth of the run, in nats for all rows."""
    values = result.history.elbo
    last = values[-max(1, len(values) // 10) :]
    return float(sum(value[replica] for value in last) / len(last))


def outputs_of(data: LoadedDataset) -> int:
    """How many numbers a network gives: targets, or classes."""
    return data.y.shape[1] if data.task == "regression" else int(data.y.max()) + 1


def make_likelihood(data: LoadedDataset, settings: dict[str, Any]) -> Likelihood:
    """Gaussian with a variance for each output unless one for all is asked for, or categorical."""
    outputs = outputs_of(data)
    if data.task != "regression":
        return Categorical(outputs)
    return Gaussian(
        outputs,
        noise=settings.get("noise", "output" if outputs > 1 else "scalar"),
        variance=settings["noise_variance"],
        frozen_steps=settings["frozen_steps"],
    )
