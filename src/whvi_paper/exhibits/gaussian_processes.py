"""Gaussian processes on simulators: test error against the number of parameters, for each method."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from whvi_paper import measured
from whvi_paper.blocks import Cell, Figure, Shown
from whvi_paper.jobs import Job
from whvi_paper.processes.shown import Cells, draw, entries, table, told
from whvi_paper.processes.training import train
from whvi_paper.store import Record

NAME = "gaussian-processes"
TITLE = "Gaussian processes with random features and with inducing points"
SOURCE = "Supplement, figure on test error against the number of parameters"
DATASETS = ("borehole", "hartmann6", "rastrigin5", "robot", "otlcircuit")
METHODS = ("whvi", "vi", "svgp")
CONFIGURATION = {
    "projection": "gaussian", "learn": True, "learning_rate": 6e-4, "schedule": "constant",
    "batch_size": 128, "noise_variance": 0.0004, "frozen_steps": 10_000,
}  # fmt: skip
"""The paper's settings; it does not state the batches."""
RATES = {"hartmann6": {"learning_rate": 5e-3}}
DECAYED = {"learning_rate": 1e-2, "schedule": "cosine", "frozen_steps": 1_000}
COVARIANCES = ("diagonal", "full")
VARIATIONS: dict[str, tuple[Sequence[str], Sequence[str], dict[str, Any]]] = {
    "decayed": (METHODS, COVARIANCES, DECAYED),
    "decayed orthogonal": (["whvi"], ["diagonal"], {**DECAYED, "projection": "orthogonal"}),
    "decayed fastfood": (["whvi"], ["diagonal"], {**DECAYED, "projection": "fastfood"}),
}
"""Ours, at the largest side: the methods, their covariances, and what is other than in the paper."""
PLANS: dict[str, dict[str, Any]] = {
    "recipe": {"datasets": DATASETS, "sides": (16, 32), "steps": 12_000, "samples": 32, "rows": 1000, "exact": 200},
    "quick": {
        "datasets": ("otlcircuit",), "sides": (16, 32), "steps": 600, "samples": 16, "rows": 300, "exact": 50,
    },
    "smoke": {"datasets": ("rastrigin5",), "sides": (4,), "steps": 12, "samples": 4, "rows": 40, "exact": 3},
}  # fmt: skip
"""``rows`` and ``exact`` are the rows and steps of the exact process."""
METRICS = ("rmse", "mnll")
POINTS = [
    Cell(method, dataset, f"gp {covariance}", 0, side, "rmse")
    for dataset, method, covariance, side in product(DATASETS, METHODS, COVARIANCES, PLANS["recipe"]["sides"])
]
"""Of the paper's figure, which prints no numbers, at the sides that are computed here."""
SECONDS = {"whvi": 5e-6, "vi": 2e-3, "svgp": 1e-2}
"""Of a step, roughly: of WHVI for each feature."""


def jobs(profile: str) -> list[Job]:
    """One for each dataset, method, covariance, side and variation."""
    plan = measured.plan(PLANS, profile)
    found = []
    for dataset in plan["datasets"]:
        for side, method, covariance in product(plan["sides"], METHODS, COVARIANCES):
            found.append(_job(plan, dataset, method, covariance, side, "paper", RATES.get(dataset, {})))
        for variation, (methods, covariances, changes) in VARIATIONS.items():
            for method, covariance in product(methods, covariances):
                settings = {**RATES.get(dataset, {}), **changes}
                found.append(_job(plan, dataset, method, covariance, plan["sides"][-1], variation, settings))
        found.append(_exact(plan, dataset))
    return found


def _job(
    plan: dict[str, Any], dataset: str, method: str, covariance: str, side: int, variation: str, changes: dict[str, Any]
) -> Job:
    steps, settings = plan["steps"], {**CONFIGURATION, **changes}
    settings["frozen_steps"] = settings["frozen_steps"] * steps // PLANS["recipe"]["steps"]
    inputs = {
        "task": "gaussian process", "dataset": dataset, "method": method, "covariance": covariance, "side": side,
        "variation": variation, "steps": steps, "samples": plan["samples"], "configuration": settings, "seed": 0,
    }  # fmt: skip
    seconds = SECONDS[method] * (side**2 if method == "whvi" else 1) * steps
    return Job(NAME, f"{method} {covariance} {dataset} {side} {variation}", (inputs,), train, cost=seconds / 60)


def _exact(plan: dict[str, Any], dataset: str) -> Job:
    settings = {**CONFIGURATION, "learning_rate": 5e-2, "schedule": "cosine", "frozen_steps": 0}
    inputs = {
        "task": "gaussian process", "dataset": dataset, "method": "exact", "covariance": "full", "variation": "exact",
        "rows": plan["rows"], "steps": plan["exact"], "configuration": settings, "seed": 0,
    }  # fmt: skip
    return Job(NAME, f"exact {dataset}", (inputs,), train, cost=2.0)


def show(records: Sequence[Record]) -> Shown:
    """A panel for each dataset and covariance, the numbers, and what they say."""
    cells = Cells(records)
    words = "RMSE against the number of parameters, a panel for each dataset and covariance; the table has the numbers."
    drawing = Figure("Test error against parameters", draw(cells), "Hollow: the variation “decayed”.", words)
    tables = (table(cells, metric) for metric in METRICS)
    return Shown(NAME, TITLE, SOURCE, told(cells), (drawing, *tables), entries(NAME, cells, METRICS), printed=POINTS)
