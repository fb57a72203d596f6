"""How the estimators' defaults were chosen: ``python benchmarks/estimator_defaults.py [set ...] [--only variant]``.

Regression on the training rows of the first two standard splits: four fifths of them train, one fifth is held out;
test rows are not touched. Four members on each split: the mean over them, and their mixture. MNLL, RMSE as a share
of the target's standard deviation, and the share of targets in 90 % intervals, on held-out rows. Writes
``results/bench/estimator_defaults.json``, one entry after the other; what is there is not computed again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from whvi.ensemble import Ensemble
from whvi.inference import SVI, CosineDecay, LinearWarmup, Progress, fit_replicas
from whvi.likelihoods import Gaussian
from whvi.predictive import predict
from whvi.predictive.calibration import coverage
from whvi.scaling import Scaling
from whvi.sklearn import training
from whvi.sklearn.parameters import NOISE
from whvi_paper import tabular
from whvi_paper.bench.record import study
from whvi_paper.data.standard import standard_split
from whvi_paper.exhibits import uci_standard
from whvi_paper.exhibits.uci_standard import cpu_seconds

RECORD = Path(__file__).parent.parent / "results/bench/estimator_defaults.json"
DATASETS = ("yacht", "boston", "energy", "concrete", "kin8nm", "protein")
SPLITS, MEMBERS, SAMPLES = 2, 4, 64
MOST_ROWS = 8_000
"""Of a large set, at random."""


@dataclass(frozen=True)
class Variant:
    """One way to train."""

    terms: int = 1
    noise: str = "input"
    steps: int = 5_000
    batch_size: int = 64
    rate: float = 1e-2
    narrower: float = 1.0
    warm_up: float = 0.2
    steadiness: float = 0.1


VARIANTS = {
    "earlier defaults": Variant(steps=3_000, batch_size=256, rate=2e-2, warm_up=0.0),
    "T = 1": Variant(steps=10_000, batch_size=32),
    "T = 1, narrow, rate 2e-2": Variant(steps=10_000, batch_size=32, rate=2e-2, narrower=10.0),
    "T = 1, narrow, rate 2e-2, constant noise": Variant(1, "constant", 10_000, 32, 2e-2, 10.0),
    "T = 1, narrow, rate 2e-2, batches of 128": Variant(steps=4_000, batch_size=128, rate=2e-2, narrower=10.0),
    **{
        f"T = 1, narrow, rate 2e-2, batches of 64{more}": Variant(1, "input", 10_000, 64, 2e-2, 10.0, warm_up)
        for more, warm_up in (("", 0.2), (", KL warm-up over half", 0.5), (", KL warm-up over nine tenths", 0.9))
    },
    "T = 4": Variant(4, steps=10_000, batch_size=32, rate=2e-2, narrower=10.0),
    "T = 4, 20,000 steps of 16": Variant(4, steps=20_000, batch_size=16, rate=2e-2, narrower=10.0),
    "T = 4, 5,000 steps of 64": Variant(4, steps=5_000, batch_size=64, rate=2e-2, narrower=10.0),
}


DEEP = {
    "deep ensemble, as published": tabular.PUBLISHED,
    "deep ensemble, 2 x 128, 40 epochs": tabular.DEEP,
    "deep ensemble, 2 x 128, 10,000 steps": tabular.Deep(epochs=None),
}
"""Settings of a rival, with five members."""


@dataclass(frozen=True)
class Part:
    """Standardised rows of a split: to train with, and held out."""

    train: tuple[Tensor, Tensor]
    held_out: tuple[Tensor, Tensor]
    log_volume: float


def rows_of(name: str, index: int) -> tuple[tabular.Array, tabular.Array, int]:
    """The training rows of a split in random order, and how many of them, four fifths, train."""
    split = standard_split(name, index)
    order = np.random.default_rng(index).permutation(len(split.x))[:MOST_ROWS]
    return split.x[order], split.y[order], int(0.8 * len(order))


def part_of(name: str, index: int) -> Part:
    """Four fifths and one fifth of the training rows of a split."""
    x, y, count = rows_of(name, index)
    y = y[:, None]
    x_scaling, y_scaling = Scaling.of(x[:count]), Scaling.of(y[:count])
    xs = torch.from_numpy(x_scaling.forward(x)).float().split([count, len(x) - count])
    ys = torch.from_numpy(y_scaling.forward(y)).float().split([count, len(x) - count])
    return Part((xs[0], ys[0]), (xs[1], ys[1]), y_scaling.log_volume)


def judged(members: Sequence[training.Member], part: Part) -> list[float]:
    """MNLL, RMSE and coverage of the mixture of members on held-out rows."""
    models, likelihoods = zip(*members, strict=True)
    x, y = (one.double() for one in part.held_out)
    prediction = predict(Ensemble(models, likelihoods), x, SAMPLES)
    rmse = (prediction.mean - y).square().mean().sqrt()
    found = float(prediction.mnll(y)) + part.log_volume, float(rmse), float(coverage(*prediction.interval(0.9), y))
    return [round(value, 4) for value in found]


def measure(name: str, variant: Variant) -> dict[str, Any]:
    """Members on all splits at once, and how they predict the held-out rows."""
    parts = [part_of(name, index) for index in range(SPLITS)]
    laws = [Gaussian(1, NOISE[variant.noise], variance=training.START_VARIANCE) for _ in range(SPLITS * MEMBERS)]
    for law in laws:
        law.frozen_steps = min(training.FROZEN_STEPS, variant.steps // 10)
    with patch.multiple(training, NARROWER=variant.narrower, STEADINESS=variant.steadiness):
        inputs = parts[0].train[0].shape[1]
        options = {"terms": variant.terms, "pad_to": "order"}
        models = [
            training.make_network(inputs, (128, 128), law, "diagonal", seed, **options) for seed, law in enumerate(laws)
        ]
    weight = LinearWarmup(round(variant.warm_up * variant.steps)) if variant.warm_up else 1.0
    start = cpu_seconds()
    fit_replicas(
        models,
        laws,
        [part.train for part in parts for _ in range(MEMBERS)],
        steps=variant.steps,
        algorithm=SVI(variant.rate, schedule=CosineDecay(variant.steps), kl_weight=weight),
        batch_size=variant.batch_size,
        callbacks=[Progress(False)],
        compile=True,
    )
    spent = cpu_seconds() - start
    members = [(model.double().eval(), law.double().eval()) for model, law in zip(models, laws, strict=True)]
    groups = [members[split * MEMBERS : (split + 1) * MEMBERS] for split in range(SPLITS)]
    alone = [judged([one], part) for group, part in zip(groups, parts, strict=True) for one in group]
    mixed = [judged(group, part) for group, part in zip(groups, parts, strict=True)]
    mean = {
        key: [round(fmean(column), 4) for column in zip(*rows, strict=True)]
        for key, rows in {"one": alone, "four": mixed}.items()
    }
    return {**mean, "splits": mixed, "rows": len(parts[0].train[0]), "cpu_seconds": round(spent, 1)}


def measure_deep(name: str, how: tabular.Deep) -> dict[str, Any]:
    """A deep ensemble on the same rows: MNLL, RMSE as a share, coverage."""
    found, start = [], cpu_seconds()
    for index in range(SPLITS):
        x, y, count = rows_of(name, index)
        one = uci_standard.judged(
            tabular.deep_ensemble(x[:count], y[:count], index, how)(x[count:], y[count:]), y[count:]
        )
        found.append([one["mnll"], one["rmse"] / float(y[:count].std()), one["coverage_90"]])
    mean = [round(fmean(column), 4) for column in zip(*found, strict=True)]
    return {"five": mean, "splits": found, "rows": count, "cpu_seconds": round(cpu_seconds() - start, 1)}


def show(record: dict[str, dict[str, Any]]) -> str:
    """The record as a table in Markdown."""
    head = "| Set | Variant | one: MNLL | RMSE | 90 % | mixture: MNLL | RMSE | 90 % | CPU s |"
    lines = [head, "| --- |" + " --- |" * 8]
    for name, rows in record.items():
        for variant, row in rows.items():
            one, several = row.get("one", ["–"] * 3), row.get("four", row.get("five"))
            cells = [value if isinstance(value, str) else f"{value:.3f}" for value in (*one, *several)]
            lines.append(f"| {name} | {variant} | {' | '.join(cells)} | {row['cpu_seconds']:.0f} |")
    return "\n".join(lines)


def one(name: str, variant: str) -> dict[str, Any]:
    """A variant, or a rival's setting, on a set."""
    torch.set_num_threads(1)
    return measure_deep(name, DEEP[variant]) if variant in DEEP else measure(name, VARIANTS[variant])


if __name__ == "__main__":
    study(__doc__, RECORD, DATASETS, [*VARIANTS, *DEEP], one, show)
