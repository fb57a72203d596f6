"""Train a convolutional network on images, and measure it: error, density, calibration, and images of another kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from whvi.errors import ArgumentError
from whvi.inference import Checkpoint, Distributed, Every, Fit, Moment, Progress, fit
from whvi.io import atomic, canonical, packing
from whvi.likelihoods import Categorical
from whvi.predictive import Prediction, predict
from whvi.predictive.calibration import reliability
from whvi.predictive.metrics import auroc, brier, error_rate
from whvi_paper.data import load
from whvi_paper.data.catalogue import DATASETS, named
from whvi_paper.data.table import DatasetKind
from whvi_paper.images.augmentation import Augment, Standardise
from whvi_paper.images.settings import algorithm, as_trained, complete, cycles
from whvi_paper.images.shifts import SHIFTS, Shift
from whvi_paper.jobs import Inputs, Report, Results
from whvi_paper.networks import convnet
from whvi_paper.store import name_of
from whvi_paper.training import Curve
from whvi_paper.workers import Clock

TRAIN_SHARE = 5 / 6
"""The images that come first in CIFAR-10 are those to train with: 50,000 of 60,000."""
VALIDATION_SHARE = 1 / 10
"""Of these, the last ones, where choices are made: 5,000."""
LOOK_ROWS = 2000
"""Test images of the learning curve, and of each kind of other images."""
REPORTS = 20
"""In an epoch."""
ROWS_AT_ONCE = 32
BINS = 15
FIT_TIMES = "fit-times.json"
"""Of a fit, in its folder: the file of its ``Clock``."""


def train(inputs: Sequence[Inputs], folder: Path, report: Report) -> Sequence[Results]:
    """The record of one network: fit, or take the weights of a fit, and evaluate. A ``jobs.Job`` calls it."""
    (one,) = inputs
    task, story = trained(one, folder, folder.parent / "models", report)
    found = {
        **evaluate(task, one["samples"], one["seed"], SHIFTS if one.get("shifts", True) else {}),
        "parameters": task.parameters,
        "data_sha256": task.data_sha256,
        "precision": task.settings["precision"],
        **story,
    }
    return [found]


def trained(one: Inputs, folder: Path, models: Path, report: Report) -> tuple["ImageTraining", dict[str, Any]]:
    """A task whose network is fitted, by this call or an earlier one, and what only the fit knows: curve, CPU seconds.

    Cycles before the last are a run of its own, whose weights may be there already.

    Args:
        one: inputs.
        folder: for checkpoints.
        models: a folder for the weights, of all tasks.
        report: called with the share of all cycles that is done.
    """
    task = ImageTraining(one)
    weights = models / f"{name_of(one)}.safetensors"
    path = weights.with_suffix(".json")
    if not weights.exists():
        story: dict[str, Any] = {"curve": [], "training_cpu_seconds": 0.0}
        begun = task.epochs_before / (task.epochs_before + task.epochs)
        if task.earlier is not None:
            before, story = trained(task.earlier, folder / "earlier", models, lambda share: report(begun * share))
            task.model.load_state_dict(before.model.state_dict())
        clock = Clock(folder / FIT_TIMES)

        def told(share: float) -> None:
            clock.keep()
            report(begun + (1.0 - begun) * share)

        task.fit(folder, told)
        curve = [[task.epochs_before + epoch, *values] for epoch, *values in by_epoch(task.curve(folder))]
        spent = story["training_cpu_seconds"] + clock.spent()[1]
        atomic.write_json(path, {"curve": story["curve"] + curve, "training_cpu_seconds": spent})
        task.save(weights)  # last: where these are, the other is
    task.model.load_state_dict(packing.unpack(weights.read_bytes()))
    return task, canonical.parse(path.read_bytes())


def by_epoch(curve: Curve) -> list[list[float]]:
    """Points of a curve with a point for each epoch: epoch and values."""
    return [[step / curve.every, *values] for step, values in sorted(curve.points.items())]


class ImageTraining:
    """A network and its images, as inputs describe them: ``dataset``, ``model``, ``method``, ``epochs``, ``seed``, and
    ``configuration`` with any of the settings of ``whvi_paper.images.settings``; the others are the method's own. With
    ``validation`` what stands for test images is the last tenth of the training images, which then do not train.

    ``epochs`` is a number, or a list with one for each cycle: the schedule and the optimizer start again (Loshchilov &
    Hutter, 2017), and the task is the last of them. ``sides``, where it is there, has one for each cycle too: pixels
    of a line, to which images are shrunk. Steps on small images cost less, and large ones resume from what they teach.
    """

    def __init__(self, one: Inputs) -> None:
        self.inputs = one
        *before, self.epochs = cycles(one["epochs"])
        self.epochs_before = sum(before)
        self.seed = one["seed"] + len(before)  # other batches than the cycle before
        short = before[0] if len(before) == 1 else before
        self.earlier = {**one, "epochs": short} if before else None
        self.side = None
        if (sides := one.get("sides")) is not None:
            *sides_before, self.side = sides
            if len(sides_before) != len(before):
                raise ArgumentError(f"sides {sides} must have one for each cycle of epochs {one['epochs']}")
            if self.earlier is not None:
                self.earlier["sides"] = sides_before
        dataset = named(one["dataset"])
        if dataset.task is not DatasetKind.IMAGES:
            known = ", ".join(name for name, other in DATASETS.items() if other.task is DatasetKind.IMAGES)
            raise ArgumentError(f"{dataset.name} has no images; use one of: {known}")
        torch.manual_seed(one["seed"])
        self.model = convnet(one["model"], one["method"], classes=len(dataset.targets))
        self.settings = complete(self.model, one["configuration"])  # mistakes come before data
        self.predictor = as_trained(self.model, self.settings)
        self.likelihood = Categorical(len(dataset.targets))
        self.parameters = sum(p.numel() for p in self.model.parameters())
        data = load(dataset.name)
        self.data_sha256 = data.sha256
        split, end = round(len(data) * TRAIN_SHARE), len(data)
        if self.settings["validation"]:  # test images are out of reach
            split, end = split - round(split * VALIDATION_SHARE), split
        images, labels = torch.from_numpy(data.x), torch.from_numpy(data.y)
        self.train, self.test_images = (images[:split], labels[:split]), images[split:end]
        self.view = Standardise(side=self.side)
        self.test = self.view(self.test_images), labels[split:end]
        self.batch_size = min(self.settings["batch_size"], split)
        self.steps = self.epochs * split // self.batch_size
        self.look_seconds = 0.0  # of fits: what looks at the test images took of them

    def curve(self, folder: Path) -> Curve:
        """The learning curve that a fit leaves in a folder, with a point for each epoch."""
        return Curve(folder / "curve.json", self.steps // self.epochs)

    def fit(self, folder: Path, report: Report, *, progress: bool | None = False, distributed: bool = False) -> Fit:
        """Train, with a checkpoint and a look at the test images after each epoch; resumes from what is there."""
        curve = self.curve(folder)
        way = algorithm(self.model, self.settings, self.steps)

        def watch(moment: Moment) -> None:
            report(moment.step / self.steps)
            if moment.step % curve.every == 0:
                start = perf_counter()
                look = self.measure(1, 0, LOOK_ROWS, rows_at_once=256)
                curve.add(moment.step, [look["error"], look["mnll"]])
                self.look_seconds += perf_counter() - start

        return fit(
            self.model,
            self.likelihood,
            self.train,
            steps=self.steps,
            algorithm=Distributed(way) if distributed else way,
            batch_size=self.batch_size,
            seed=self.seed,
            transform=Augment(side=self.side),
            callbacks=[
                Every(report_every(curve.every), watch),
                Checkpoint(folder / "checkpoint", curve.every),
                Progress(progress),
            ],
        )

    def measure(self, samples: int, seed: int, rows: int | None = None, *, rows_at_once: int) -> dict[str, float]:
        """Metrics on the first test images, or on all."""
        x, y = (part[:rows] for part in self.test)
        return measure(
            predict(self.predictor, x, samples, likelihood=self.likelihood, batch_rows=rows_at_once, seed=seed), y
        )

    def save(self, path: Path) -> None:
        """The weights, as safetensors."""
        atomic.write_bytes(path, packing.pack(self.model.state_dict()))


def report_every(steps: int) -> int:
    """Steps between two reports in an epoch of so many: about a 20th, but a divisor, so that its end has one.

    >>> [report_every(steps) for steps in (1, 19, 195, 199)]
    [1, 1, 13, 199]
    """
    return next(n for n in range(max(1, steps // REPORTS), steps + 1) if steps % n == 0)


def evaluate(task: ImageTraining, samples: int, seed: int, shifts: Mapping[str, Shift]) -> dict[str, Any]:
    """Metrics on the test images; bins of the reliability diagram; how well uncertainty tells other images apart.

    Args:
        task: a network that is trained, and its images.
        samples: functions that are drawn.
        seed: of these.
        shifts: what makes images of another kind, by name.
    """
    x, labels = task.test

    def look(inputs: Tensor) -> Prediction:
        return predict(task.predictor, inputs, samples, likelihood=task.likelihood, batch_rows=ROWS_AT_ONCE, seed=seed)

    prediction = look(x)
    bins = reliability(prediction.mean, labels, BINS)
    held = bins.count > 0
    diagram = [
        [round(float(value), 6) for value in row]
        for row in zip(bins.confidence[held], bins.accuracy[held], bins.count[held], strict=True)
    ]
    generator = torch.Generator().manual_seed(seed)
    shifted: dict[str, dict[str, float]] = {}
    for name, shift in shifts.items():
        other = look(task.view(shift(task.test_images[:LOOK_ROWS], generator)))
        scores = {
            "auroc_entropy": auroc(prediction.entropy[:LOOK_ROWS], other.entropy),
            "auroc_mutual_information": auroc(prediction.mutual_information[:LOOK_ROWS], other.mutual_information),
        }
        if name != "noise":  # which has no labels
            scores |= {"error": error_rate(other.mean, labels[:LOOK_ROWS])}
        shifted[name] = {key: round(float(value), 6) for key, value in scores.items()}
    return {"metrics": measure(prediction, labels), "reliability": diagram, "shifts": shifted}


def measure(prediction: Prediction, labels: Tensor) -> dict[str, float]:
    """Error, MNLL, calibration error and Brier score.

    All from the probabilities: ``prediction.mnll`` is the same number, but evaluates all functions a second time.
    """
    probabilities = prediction.mean
    chosen = probabilities.double().gather(1, labels.unsqueeze(1)).clamp_min(torch.finfo(torch.float32).tiny)
    found = {
        "error": error_rate(probabilities, labels),
        "mnll": -chosen.log().mean(),
        "ece": reliability(probabilities, labels, BINS).error,
        "brier": brier(probabilities, labels),
    }
    return {name: round(float(value), 6) for name, value in found.items()}
