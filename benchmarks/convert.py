"""What a trained network keeps when it is made Bayesian: ``python benchmarks/convert.py [--rounds R] [--table]``.

A dense network is trained on 1,000 of scikit-learn's digits, its first layer stays, the others are replaced by
``whvi.bayesianize``, and 1,000 steps of training follow. Settings were chosen on the next 200 rows with networks 1 to
3; all numbers are of the other 597. Writes ``results/bench/convert.json``; ``--table`` prints it.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import whvi
from whvi.inference import SVI, OneCycle, Progress
from whvi.likelihoods import Categorical

RECORD = Path(__file__).parent.parent / "results/bench/convert.json"
WIDTH, DENSE_STEPS, STEPS, RATE, BATCH = 512, 600, 1000, 5e-2, 256
TRAINING, TEST = slice(1000), slice(1200, None)


class Scores(NamedTuple):
    """Of probabilities on the test rows."""

    accuracy: float
    mnll: float

    @classmethod
    def of(cls, probabilities: Tensor, labels: Tensor) -> "Scores":
        """Of classes (N, K) and labels (N)."""
        chosen = probabilities.gather(1, labels.unsqueeze(1)).clamp_min(torch.finfo(torch.float32).tiny)
        return cls(float((probabilities.argmax(-1) == labels).float().mean()), float(-chosen.log().mean()))


def digits() -> tuple[Tensor, Tensor]:
    """1,797 images of 8 x 8 pixels, in an order at random, and what they show."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return torch.tensor(images / 16.0, dtype=torch.float32)[order], torch.tensor(labels)[order]


def dense(x: Tensor, y: Tensor, seed: int) -> nn.Module:
    """A network with two hidden layers, trained as one does."""
    torch.manual_seed(seed)
    layers = nn.Linear(64, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(DENSE_STEPS):
        rows = torch.randint(len(x), (64,))
        loss = cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def compare(seed: int) -> tuple[float, Scores, Scores]:
    """Share of the dense parameters, scores of the dense network, and of the Bayesian one."""
    x, y = digits()
    model = dense(x[TRAINING], y[TRAINING], seed)
    with torch.no_grad():
        before = Scores.of(model(x[TEST]).softmax(-1), y[TEST])
    torch.manual_seed(0)
    bayesian, report = whvi.bayesianize(model, skip=("0",))
    likelihood, algorithm = Categorical(10), SVI(RATE, schedule=OneCycle(STEPS))
    data = x[TRAINING], y[TRAINING]
    whvi.fit(
        bayesian,
        likelihood,
        data,
        steps=STEPS,
        algorithm=algorithm,
        batch_size=BATCH,
        seed=0,
        callbacks=[Progress(False)],
    )
    probabilities = whvi.predict(bayesian, x[TEST], samples=64, likelihood=likelihood, seed=1).mean
    return report.share, before, Scores.of(probabilities, y[TEST])


def measure(rounds: int) -> dict[str, Any]:
    """A row for each network, with seeds from 1."""
    torch.set_num_threads(1)
    found = []
    for seed in range(1, rounds + 1):
        share, before, after = compare(seed)
        found.append({"seed": seed, "share": share, "dense": before._asdict(), "whvi": after._asdict()})
    return {"networks": found}


def table(record: dict[str, Any]) -> str:
    """Means over networks, with standard deviations, as a table in Markdown."""
    rows = record["networks"]
    lines = ["| network | parameters | accuracy | MNLL |", "| --- " * 4 + "|"]
    shares = {"dense": 1.0, "whvi": rows[0]["share"]}
    for name, label in (("dense", "dense"), ("whvi", "made Bayesian, 1,000 steps")):
        cells = [[row[name][metric] for row in rows] for metric in ("accuracy", "mnll")]
        numbers = " | ".join(f"{np.mean(values):.3f} ({np.std(values, ddof=1):.3f})" for values in cells)
        lines.append(f"| {label} | {100 * shares[name]:.1f} % | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    from whvi_paper.bench.record import main

    main(__doc__, RECORD, measure, table)
