"""What a choice of labels by BALD saves: ``python benchmarks/active_learning.py [--rounds R] [--table]``.

The loop of ``docs/tutorials/active-learning.md`` with other seeds: a network begins with 10 labels of scikit-learn's
breast cancer data and asks for 5 more, nine times over; errors are on 200 rows held out. A round is a seed, with the
same first rows and the same network for both choices. Writes ``results/bench/active_learning.json``; ``--table``
prints it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

import whvi
from whvi import acquire
from whvi.inference import SVI, Progress
from whvi.likelihoods import Categorical
from whvi.nn import WHVILinear

RECORD = Path(__file__).parent.parent / "results/bench/active_learning.json"
CHOICES = {"random": "random", "bald": "BALD"}
TEST, LABELS, MORE = 200, range(10, 60, 5), 5
SEEDS = (*range(100, 108), *range(200, 219))
"""Those of the committed record, which came in two runs; none was used to choose settings."""


def tumours() -> tuple[Tensor, Tensor]:
    """30 standardised measurements of 569 tumours, and which are benign."""
    measured, labels = load_breast_cancer(return_X_y=True)
    x = torch.tensor(measured, dtype=torch.float32)
    return (x - x.mean(0)) / x.std(0), torch.tensor(labels)


def learn(choice: str, seed: int) -> list[float]:
    """The error with each number of labels."""
    (x, y), likelihood = tumours(), Categorical(2)
    torch.manual_seed(seed)
    order = torch.randperm(len(x))
    test, known, pool = order[:TEST], order[TEST : TEST + LABELS[0]], order[TEST + LABELS[0] :]
    model = nn.Sequential(WHVILinear(30, 64), nn.ReLU(), WHVILinear(64, 2))
    errors = []
    for _ in LABELS:
        data = x[known], y[known]
        whvi.fit(model, likelihood, data, steps=100, algorithm=SVI(1e-2), seed=seed, callbacks=[Progress(False)])
        guess = whvi.predict(model, x[test], likelihood=likelihood, seed=0).mean.argmax(1)
        errors.append(int((guess != y[test]).sum()) / TEST)
        if choice == "random":
            rows = torch.randperm(len(pool))[:MORE]
        else:
            rows = acquire.choose(model, x[pool], MORE, choice, likelihood=likelihood, seed=0)
        known = torch.cat([known, pool[rows]])
        rest = torch.ones(len(pool), dtype=torch.bool)
        rest[rows] = False
        pool = pool[rest]
    return errors


def measure(rounds: int) -> dict[str, Any]:
    """The errors of both choices for the first seeds."""
    if rounds > len(SEEDS):
        raise SystemExit(f"there are {len(SEEDS)} seeds, but --rounds is {rounds}; give no more")
    torch.set_num_threads(1)
    runs = [{"seed": seed, **{choice: learn(choice, seed) for choice in CHOICES}} for seed in SEEDS[:rounds]]
    return {"labels": list(LABELS), "runs": runs}


def table(record: dict[str, Any]) -> str:
    """Means over seeds, with standard errors, in per cent, as a table in Markdown."""
    errors = {choice: 100.0 * np.array([run[choice] for run in record["runs"]]) for choice in CHOICES}
    errors["difference"] = errors["random"] - errors["bald"]
    heads = [*CHOICES.values(), "difference, seed by seed"]
    lines = [f"| Labels | {' | '.join(heads)} |", "| --- " * 4 + "|"]
    for place, labels in enumerate(record["labels"]):
        lines.append(f"| {labels} | {' | '.join(_cell(values[:, place]) for values in errors.values())} |")
    means = {choice: values[:, 1:].mean(1) for choice, values in errors.items()}  # the first 10 labels are the same
    lines.append(f"| mean of 15 to 55 | {' | '.join(map(_cell, means.values()))} |")
    better = int((means["difference"] > 0.0).sum())
    return "\n".join([*lines, "", f"BALD has the lower mean error for {better} of {len(record['runs'])} seeds."])


def _cell(values: Any) -> str:
    """Mean (standard error)."""
    return f"{values.mean():.1f} ({values.std(ddof=1) / len(values) ** 0.5:.1f})"


if __name__ == "__main__":
    from whvi_paper.bench.record import main

    main(__doc__, RECORD, measure, table)
