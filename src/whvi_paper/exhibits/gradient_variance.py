"""The effect of a draw for each example: the variance of the gradient of the bound, with and without it."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from math import nan
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd import grad

from whvi.inference import SVI, CosineDecay, Progress, elbo, fit
from whvi.likelihoods import Likelihood
from whvi.nn import BayesianLayer
from whvi_paper.blocks import Entry, Shown, Table
from whvi_paper.data import load, split
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.measured import cells, plan
from whvi_paper.networks import network
from whvi_paper.recipe import configuration
from whvi_paper.store import Record
from whvi_paper.training import Standardised, make_likelihood, outputs_of

NAME = "gradient-variance"
TITLE = "Variance of gradients with a draw for each example"
SOURCE = "Section 2.3, a claim without a figure"
DATASETS = ("yacht", "concrete", "energy", "powerplant")
PLANS = {
    "recipe": (DATASETS, {"steps": 2_000, "draws": 400}),
    "quick": (DATASETS[:2], {"steps": 500, "draws": 100}),
    "smoke": (DATASETS[:1], {"steps": 2, "draws": 3}),
}
DRAWS = {"example": "a draw for each example", "batch": "one draw for the batch"}
PARTS = {"mean": "means of g", "log_std": "log standard deviations of g"}
TEXT = (
    "WHVI with two hidden layers of 128 units, before training and after {steps:,} steps of the recipe. One "
    "batch of 64 training rows is fixed; {draws} gradients of the bound differ only by their draws of g. The "
    "table has the sum of the variances over all elements, for the means and for the log standard deviations of "
    "g: with one g for each example, which is local reparameterisation, and with one g for the whole batch."
)


def jobs(profile: str) -> list[Job]:
    """One for each dataset."""
    datasets, settings = plan(PLANS, profile)
    common = {"depth": 2, "width": 128, "batch_size": 64, "seed": 0, **settings}
    return [Job(NAME, name, ({"dataset": name, **common},), measure, cost=1.0) for name in datasets]


def measure(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """The variances at the start and after training, on the first split."""
    return [{"metrics": _variances(one, report)} for one in inputs]


def _variances(one: Inputs, report: Report) -> dict[str, dict[str, float]]:
    data, settings = load(one["dataset"]), configuration("whvi", "regression")
    rows = Standardised(split(data, 0, settings["scaling"]), data.task).train
    torch.manual_seed(one["seed"])
    model = network("whvi", data.x.shape[1], outputs_of(data), one["depth"], one["width"])
    likelihood = make_likelihood(data, settings)
    options = {"batch_size": one["batch_size"], "seed": one["seed"]}
    x, y = (part[: one["batch_size"]] for part in rows)
    found: dict[str, dict[str, float]] = {}
    for moment, steps in (("start", 0), ("trained", one["steps"])):
        if steps:
            algorithm = SVI(settings["learning_rate"], schedule=CosineDecay(steps))
            fit(model, likelihood, rows, steps=steps, algorithm=algorithm, callbacks=[Progress(False)], **options)
        for draws in DRAWS:
            twin = with_draws(model, draws)
            gradients = [gradient(twin, likelihood, x, y, len(rows[0])) for _ in range(one["draws"])]
            for part in PARTS:
                spread = torch.stack([each[part] for each in gradients]).var(0).sum()
                found.setdefault(f"{moment}, {part}", {})[draws] = float(f"{spread:.4g}")
        report((1 + bool(steps)) / 2)
    return found


def with_draws(model: nn.Module, draws: str) -> nn.Module:
    """A copy whose layers draw in that way."""
    twin = deepcopy(model)
    for layer in twin.modules():
        if isinstance(layer, BayesianLayer):
            layer.draws = draws
    return twin


def gradient(model: nn.Module, likelihood: Likelihood, x: Tensor, y: Tensor, n_data: int) -> dict[str, Tensor]:
    """Of the bound, by the parameters of q(g) of all structured layers: a vector for each part."""
    of = {part: [p for name, p in model.named_parameters() if name.endswith(f".g.{part}")] for part in PARTS}
    bound = elbo(model, likelihood, x, y, n_data=n_data).bound
    return {part: torch.cat([g.flatten() for g in grad(bound, some, retain_graph=True)]) for part, some in of.items()}


def show(records: Sequence[Record]) -> Shown:
    """How many times larger the variance is with one draw for the batch, for each dataset, moment and part."""
    rows, numbers = [], []
    for record in records:
        one = record["inputs"]
        for name, found in record["results"]["metrics"].items():
            moment, part = name.split(", ")
            ratio = found["batch"] / found["example"]
            rows.append(cells(one["dataset"], moment, PARTS[part], *(f"{found[d]:.3g}" for d in DRAWS), f"{ratio:.1f}"))
            place = partial(Entry, NAME, dataset=one["dataset"], model=name, depth=one["depth"], width=one["width"])
            numbers += [
                place(draws, metric="gradient_variance", mean=found[draws], std=nan, n=1, records=(record["name"],))
                for draws in DRAWS
            ]
    head = ("data", "when", "gradient by the", *DRAWS.values(), "times as large")
    return Shown(NAME, TITLE, SOURCE, TEXT.format(**records[0]["inputs"]), [Table(TITLE, head, rows)], numbers)
