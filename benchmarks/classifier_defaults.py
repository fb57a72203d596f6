"""How WHVIClassifier's defaults were chosen: ``python benchmarks/classifier_defaults.py [set ...] [--only variant]``.

The tables of ``classifiers.py``: of the training rows of split 0, at most 4,000 at random, four fifths train and one
fifth is held out; test rows are not touched. Four members, of which each leaves out a tenth of the rows that train,
others than the next. Log loss, share in error and expected calibration error on held-out rows: the mean over members
("one"); their mixture ("four"); and log loss and ECE of the mixture with a temperature, and with temperature and lapse
("both"), found on one half of the held-out rows and judged on the other: the mean over eight random halves and both
ways. Writes ``results/bench/classifier_defaults.json``, one entry after the other; what is there is not computed again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from classifiers import DATASETS, data_of
from whvi.inference import SVI, CosineDecay, LinearWarmup, Progress, Scaled, fit_replicas
from whvi.likelihoods import Categorical
from whvi.predictive import ece, error_rate, predict
from whvi.sklearn import training
from whvi.sklearn.calibration import Sureness, sureness_of, temperature_of
from whvi.sklearn.held_out import apart
from whvi_paper.bench.record import study
from whvi_paper.data import split
from whvi_paper.exhibits.uci_standard import cpu_seconds

RECORD = Path(__file__).parent.parent / "results/bench/classifier_defaults.json"
MEMBERS, SAMPLES, MOST_ROWS, LEFT_OUT, ORDERS = 4, 64, 4_000, 0.1, 8
Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Variant:
    """One way to train."""

    steps: int = 10_000
    batch_size: int = 64
    rate: float = 2e-2
    narrower: float = 10.0
    kl_weight: float = 1.0
    terms: int = 1


VARIANTS = {
    "as regression": Variant(),
    "3,000 steps": Variant(steps=3_000),
    "3,000 steps, KL x 0.3": Variant(steps=3_000, kl_weight=0.3),
    "3,000 steps, T = 4": Variant(steps=3_000, terms=4),
}


@dataclass(frozen=True)
class Fitted:
    """Logits of each member, and labels, of held-out rows."""

    held_out: Tensor
    """(members, functions, rows, classes)."""
    labels: Tensor
    rows: int
    """That each member trained on."""
    cpu_seconds: float


def parts_of(name: str) -> tuple[Rows, Rows]:
    """Rows to train with, and held-out rows."""
    x, y = split(data_of(name), 0, "clipped").train
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(x))[:MOST_ROWS])
    train, held_out = order.split([int(0.8 * len(order)), len(order) - int(0.8 * len(order))])
    return (x[train], y[train]), (x[held_out], y[held_out])


def fitted(name: str, variant: Variant) -> Fitted:
    """Members, trained at once."""
    (x, y), (held_x, held_y) = parts_of(name)
    classes = int(max(y.max(), held_y.max())) + 1
    laws = [Categorical(classes) for _ in range(MEMBERS)]
    with patch.object(training, "NARROWER", variant.narrower):
        options = {"terms": variant.terms, "pad_to": "order"}
        models = [
            training.make_network(x.shape[1], (128, 128), law, "diagonal", seed, **options)
            for seed, law in enumerate(laws)
        ]
    out = [torch.from_numpy(apart(len(x), LEFT_OUT, seed=0, part=member)) for member in range(MEMBERS)]
    weight = Scaled(LinearWarmup(round(training.WARM_UP * variant.steps)), variant.kl_weight)
    start = cpu_seconds()
    fit_replicas(
        models,
        laws,
        [(x[~one], y[~one]) for one in out],
        steps=variant.steps,
        algorithm=SVI(variant.rate, schedule=CosineDecay(variant.steps), kl_weight=weight),
        batch_size=variant.batch_size,
        callbacks=[Progress(False)],
        compile=True,
    )
    spent = cpu_seconds() - start

    def logits(member: int, rows: Tensor) -> Tensor:
        return predict(models[member].double().eval(), rows.double(), SAMPLES, seed=member).samples()

    held = torch.stack([logits(member, held_x) for member in range(MEMBERS)])
    return Fitted(held, held_y, int((~out[0]).sum()), spent)


def judged(probabilities: Tensor, labels: Tensor) -> list[float]:
    """Log loss, error and ECE."""
    log_loss = -probabilities[torch.arange(len(labels)), labels].log().mean()
    found = log_loss, error_rate(probabilities, labels), ece(probabilities, labels)
    return [round(float(value), 4) for value in found]


def with_temperature(p: Tensor, labels: Tensor, weight: Tensor) -> Sureness:
    """Without a lapse."""
    return Sureness(temperature_of(p.clamp_min(torch.finfo(p.dtype).tiny).log(), labels, weight))


def crossed(find: Callable[..., Sureness], p: Tensor, labels: Tensor) -> list[float]:
    """Log loss and ECE of changed probabilities, and the temperature and lapse: found on halves of the rows."""
    rows = []
    for seed in range(ORDERS):
        order = torch.randperm(len(p), generator=torch.Generator().manual_seed(seed))
        first, second = order.tensor_split(2)
        for chosen, other in ((first, second), (second, first)):
            change = find(p[chosen], labels[chosen], torch.ones(len(chosen), dtype=p.dtype))
            log_loss, _, error = judged(change.of(p[other]), labels[other])
            rows.append([log_loss, error, *change])
    return [round(fmean(column), 4) for column in zip(*rows, strict=True)]


def measure(found: Fitted) -> dict[str, Any]:
    """How members, their mixture and the changed mixture predict the held-out rows."""
    alone = [judged(member.softmax(-1).mean(0), found.labels) for member in found.held_out]
    mixed = found.held_out.softmax(-1).mean((0, 1))
    return {
        "one": [round(fmean(column), 4) for column in zip(*alone, strict=True)],
        "four": judged(mixed, found.labels),
        "temperature": crossed(with_temperature, mixed, found.labels),
        "both": crossed(sureness_of, mixed, found.labels),
        "rows": found.rows,
        "cpu_seconds": round(found.cpu_seconds, 1),
    }


def show(record: dict[str, dict[str, Any]]) -> str:
    """The record as a table in Markdown."""
    head = "| Set | Variant | one: log loss | four | temperature | both | error | ECE: four | both | T | e | CPU s |"
    lines = [head, "| --- |" + " --- |" * 11]
    for name, rows in record.items():
        for variant, row in rows.items():
            four, both = row["four"], row["both"]
            values = (row["one"][0], four[0], row["temperature"][0], both[0], four[1], four[2], *both[1:])
            cells = [*(f"{value:.3f}" for value in values), f"{row['cpu_seconds']:.0f}"]
            lines.append(f"| {name} | {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


def one(name: str, variant: str) -> dict[str, Any]:
    """A variant on a set."""
    torch.set_num_threads(1)
    return measure(fitted(name, VARIANTS[variant]))


if __name__ == "__main__":
    study(__doc__, RECORD, list(DATASETS), list(VARIANTS), one, show)
