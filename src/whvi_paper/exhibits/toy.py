"""The toy figure: functions that each method holds for likely, and how near it comes to the samples of SGHMC."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import TYPE_CHECKING, Any

import torch

from whvi.page import figure_svg
from whvi.predictive.plots import plot_bands
from whvi_paper import toy
from whvi_paper.blocks import Entry, Figure, Shown, Table
from whvi_paper.jobs import Job
from whvi_paper.measured import cells, plan
from whvi_paper.report.compare import label
from whvi_paper.store import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

NAME = "toy"
TITLE = "Regression with one input"
SOURCE = "Figure 4"
TEXT = (
    "128 inputs from U[-1, 2] without those between 0.2 and 0.8, noisy values of a random function (variance "
    "exp(-3)), and a network 1 - 128 - 128 - 1 with cosines, with the prior N(0, 1) for the weights. All methods "
    "know the noise variance. Bands contain 75 and 95 % of the functions f, without noise. The distance is the "
    "mean over the grid from -1.5 to 2.5 of the Wasserstein distance between the distributions of f(x) of a "
    "method and of SGHMC, the ground truth. Its chains sample the hidden layers with the last one integrated "
    "out, which is then drawn from its exact distribution. The last row and panel are not in the paper: an "
    "ensemble of G-WHVI with eight initialisations, trained at once."
)
BOUNDED = ("g-whvi", "nf-whvi", "mfg")
"""Methods whose objective is a bound. That of MC dropout leaves out the entropy of its weights, which is infinite."""
MEMBERS = 8
"""Of the ensemble of G-WHVI, which the paper does not have."""
ENSEMBLE = f"{MEMBERS} x g-whvi"
COSTS = {"g-whvi": 1.0, "nf-whvi": 4.0, "mfg": 1.0, "mcd": 1.0, "sghmc": 1.0, ENSEMBLE: 3.0}
_SVI = {"learning_rate": 0.01, "draws": 4, "functions": 1000}
_CHAINS = {"step_size": 0.03, "friction": 0.03, "chains": 4}
PLANS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "recipe": ({**_SVI, "steps": 6_000}, {**_CHAINS, "steps": 5_000, "burn_in": 1_000, "thin": 16}),
    "quick": ({**_SVI, "steps": 2_000}, {**_CHAINS, "steps": 2_500, "burn_in": 500, "thin": 10}),
    "smoke": ({**_SVI, "steps": 10, "functions": 50}, {**_CHAINS, "steps": 40, "burn_in": 8, "thin": 2}),
}
"""Settings of the four that maximise a bound, and of SGHMC."""


def jobs(profile: str) -> list[Job]:
    """One job for each method of the paper, and one for an ensemble."""
    settings = {"method": "g-whvi", "members": MEMBERS, "data_seed": 0, "seed": 1, **plan(PLANS, profile)[0]}
    return [*published_jobs(profile), Job(NAME, ENSEMBLE, (settings,), toy.train, cost=COSTS[ENSEMBLE])]


def published_jobs(profile: str) -> list[Job]:
    """One job for each method of the paper."""
    variational, chains = plan(PLANS, profile)
    common = {"data_seed": 0, "seed": 1}
    return [
        Job(NAME, method, ({"method": method, **common, **settings},), toy.train, cost=COSTS[method])
        for method in toy.METHODS
        for settings in (chains if method == "sghmc" else variational,)
    ]


def distances(records: Sequence[Record]) -> dict[str, float]:
    """Mean Wasserstein distance of each method to SGHMC over the grid; empty without SGHMC."""
    laws = {_method(one): torch.tensor(one["results"]["metrics"]["quantiles"], dtype=torch.float64) for one in records}
    truth = laws.pop("sghmc", None)
    return {} if truth is None else {name: float(toy.wasserstein(law, truth).mean()) for name, law in laws.items()}


def show(records: Sequence[Record]) -> Shown:
    """The five panels, and a table of what is behind them."""
    records = sorted(records, key=lambda one: list(COSTS).index(_method(one)))
    near = distances(records)
    words = "For each method the mean function with bands of 75 and 95 %, the data, the true function and the gap."
    blocks = (Figure(TITLE, figure_svg(draw(records)), alternative=words), table(records, near))
    return Shown(NAME, TITLE, SOURCE, TEXT, blocks, numbers(records, near))


def table(records: Sequence[Record], near: Mapping[str, float]) -> Table:
    """One row for each method."""
    rows = []
    for one in records:
        results, method = one["results"], _method(one)
        metrics = results["metrics"]
        bound = f"{metrics['elbo']:.1f}" if method in BOUNDED else "-"
        distance = f"{near[method]:.3f}" if method in near else "-"
        rhat = f"{metrics['rhat']:.3f} / {metrics['effective_sample_size']:.0f}" if "rhat" in metrics else "-"
        seconds = f"{one['cpu_seconds']:.0f}"
        rows.append(cells(_title(one), f"{results['parameters']:,}", distance, bound, rhat, seconds))
    head = ("method", "parameters", "distance to SGHMC", "ELBO", "R-hat / effective samples", "CPU seconds")
    caption = "R-hat is the largest on the grid. The objective of MC dropout is not a bound, so it has no bound here."
    return Table("How near each method comes to SGHMC", head, rows, caption)


def draw(records: Sequence[Record]) -> "Canvas":
    """A panel for each method, with its number of parameters."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(2.9 * len(records), 3.0), layout="constrained")
    panels = canvas.subplots(1, len(records), sharex=True, sharey=True, squeeze=False)[0]
    for axis, one in zip(panels, records, strict=True):
        metrics, data = one["results"]["metrics"], toy.make_data(one["inputs"]["data_seed"])
        bounds = {float(level): torch.tensor(values) for level, values in metrics["bands"].items()}
        bands = {level: (bounds[low], bounds[high]) for level, (low, high) in toy.BANDS.items()}
        plot_bands(toy.GRID, torch.tensor(metrics["mean"]), bands, data=(data.x, data.y), axis=axis)
        axis.plot(toy.GRID.squeeze(-1), data.truth, color="C3", linewidth=1, linestyle="--", label="truth")
        axis.get_legend().remove()
        axis.axvspan(*toy.GAP, color="0.5", alpha=0.12, linewidth=0)
        axis.set(title=f"{_title(one)}, {one['results']['parameters']:,} parameters", ylabel="")
        axis.title.set_fontsize(10)
    spread = float(data.y.max() - data.y.min())
    panels[0].set(ylabel="y", ylim=(float(data.y.min()) - 0.6 * spread, float(data.y.max()) + 0.6 * spread))
    panels[0].legend(*panels[0].get_legend_handles_labels(), loc="lower left", fontsize=7, ncols=2)
    return canvas


def numbers(records: Sequence[Record], near: Mapping[str, float]) -> list[Entry]:
    """What the table publishes: distances, bounds, and how well the chains mixed."""
    found = []
    for one in records:
        method, metrics = _method(one), one["results"]["metrics"]
        values = {"wasserstein": near[method]} if method in near else {}
        values |= {"elbo": metrics["elbo"]} if method in BOUNDED else {}
        values |= {name: metrics[name] for name in ("rhat", "effective_sample_size") if name in metrics}
        place = Entry(
            NAME, method, "toy", "mlp", 2, toy.WIDTH, "", nan, nan, 1, cpu_seconds=one["cpu_seconds"],
            parameters=one["results"]["parameters"], failed=one["failures"], records=(one["name"],),
        )  # fmt: skip
        found += [replace(place, metric=metric, mean=value) for metric, value in values.items()]
    return found


def _method(one: Record) -> str:
    method, members = str(one["inputs"]["method"]), one["inputs"].get("members")
    return method if members is None else f"{members} x {method}"


def _title(one: Record) -> str:
    method, members = str(one["inputs"]["method"]), one["inputs"].get("members")
    return label(method) if members is None else f"{members} x {label(method)}"
