"""A trained network that people might have, of letters A to T from 16 features, and judges of what is made of it."""

import os
import time
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from whvi.predictive.calibration import ece
from whvi.predictive.metrics import auroc, error_rate

SEEN, WIDTH, STEPS, BATCH, RATE = 20, 512, 4000, 128, 1e-3
UNSEEN = (23, 24, 25)
"""X, Y and Z. U, V and W served for looking at variants with held-out rows, and are in no table."""
FAR = 1000
"""Rows of each kind that is not like the training rows."""
Predict = Callable[[Tensor], Tensor]
"""From inputs (N, features) to probabilities (N, classes)."""


class Rows(NamedTuple):
    """Inputs, and labels in 0 ... 19."""

    x: Tensor
    y: Tensor


class Task(NamedTuple):
    """All rows, standardised."""

    train: Rows
    held_out: Rows
    """For choices."""
    test: Rows
    unseen: Tensor


@cache
def task() -> Task:
    """Seven tenths of the rows of seen letters for training, one held out, two for testing."""
    with np.load(Path(os.environ["WHVI_DATA"]) / "letter.npz") as file:
        x, y = torch.tensor(file["X"], dtype=torch.float32), torch.tensor(file["y"])
    rows = torch.nonzero(y < SEEN)[:, 0]
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    first, second = int(0.7 * len(rows)), int(0.8 * len(rows))
    parts = rows[:first], rows[first:second], rows[second:]
    x = (x - x[parts[0]].mean(0)) / x[parts[0]].std(0)
    return Task(*(Rows(x[part], y[part]) for part in parts), x[torch.isin(y, torch.tensor(UNSEEN))][:FAR])


def network() -> nn.Sequential:
    """2 x 512 units, not trained."""
    layers = [part for i, o in pairwise((16, WIDTH, WIDTH, SEEN)) for part in (nn.Linear(i, o), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def train(model: nn.Module, steps: int) -> None:
    """As one trains a dense network: Adam, cosine decay."""
    x, y = task().train
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (BATCH,))
        optimizer.zero_grad()
        cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        schedule.step()


@cache
def dense(seed: int) -> tuple[nn.Sequential, float]:
    """The network that is given, and the seconds that its training took. Copy it before you change it."""
    torch.manual_seed(seed)
    model, start = network(), time.process_time()
    train(model, STEPS)
    return model, time.process_time() - start


def far(x: Tensor) -> dict[str, Tensor]:
    """Rows that are not like those of x: unseen letters, noise, and rows with half of their features from others."""
    generator = torch.Generator().manual_seed(1)
    noise = 3.0 * torch.randn((FAR, x.shape[1]), generator=generator)
    others = torch.stack([column[torch.randperm(len(x), generator=generator)] for column in x.T], 1)
    corrupted = torch.where(torch.rand(x.shape, generator=generator) < 0.5, others, x)
    return {"unseen": task().unseen, "noise": noise, "corrupted": corrupted[:FAR]}


def nll(probabilities: Tensor, y: Tensor) -> float:
    """Mean negative log-likelihood in nats."""
    return float(-probabilities.gather(1, y.unsqueeze(1)).clamp_min(1e-30).log().mean())


@torch.no_grad()
def judged(predict: Predict) -> dict[str, float]:
    """How good a predictive distribution is; AUROC is that of its entropy, rows that are far against test rows."""
    rows = task()
    places = far(rows.test.x)
    inputs = [rows.held_out.x, rows.test.x, *places.values()]
    held_out, test, *outside = predict(torch.cat(inputs)).double().split([len(part) for part in inputs])
    inside = torch.special.entr(test).sum(-1)
    found = {
        "held_out_nll": nll(held_out, rows.held_out.y),
        "error": error_rate(test, rows.test.y),
        "nll": nll(test, rows.test.y),
        "ece": ece(test, rows.test.y),
        **{
            f"auroc_{name}": auroc(inside, torch.special.entr(p).sum(-1))
            for name, p in zip(places, outside, strict=True)
        },
    }
    return {name: round(float(value), 5) for name, value in found.items()}
