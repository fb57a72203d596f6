"""The supplement's figures on model capacity, and on the bound as a guide to the right model."""

from collections.abc import Sequence
from statistics import correlation

from whvi.page import figure_svg
from whvi_paper import grid
from whvi_paper.blocks import Entry, Figure, Shown
from whvi_paper.curves import draw_curves, draw_sizes, early, learning_curves
from whvi_paper.jobs import Job
from whvi_paper.store import PUBLISHED, Record

NAME = "capacity"
TITLE = "Capacity, and the bound as a guide"
SOURCE = "Supplement, extended results"
DATASETS = ("yacht", "concrete")
DEPTHS, WIDTHS = (1, 2, 3), (64, 128, 256)
STEPS = 10_100
"""A fifth of the usual: networks are compared with each other here."""
TEXT = (
    "WHVI networks of one to three hidden layers. The paper says that deeper and wider ones perform better, and that "
    "the bound, which is computed from the training rows alone, is a suitable objective for model selection: where it "
    "is high, the test MNLL should be low."
)


def jobs(profile: str) -> list[Job]:
    """WHVI networks of one to three hidden layers."""
    whole = profile in PUBLISHED
    shapes = [(depth, width) for depth in (DEPTHS if whole else DEPTHS[:2]) for width in WIDTHS[: 3 if whole else 2]]
    return grid.jobs(NAME, DATASETS, ["whvi"], shapes, profile, most_steps=STEPS, curve_every=500)


def show(records: Sequence[Record]) -> Shown:
    """For each dataset: MNLL against width and depth, learning curves, and MNLL against the bound."""
    entries = grid.entries(NAME, records, lambda *_: None, ("mnll", "elbo"), ["whvi"])
    figures, words = [], []
    for dataset in dict.fromkeys(entry.dataset for entry in entries):
        mine = [record for record in records if record["inputs"]["dataset"] == dataset]
        one = {m: [e for e in entries if e.dataset == dataset and e.metric == m] for m in ("mnll", "elbo")}
        figures.append(draw(dataset, one["mnll"], one["elbo"], mine))
        if len(one["mnll"]) > 2:
            words.append(f"On {dataset} {guide(one['elbo'], one['mnll'])}.")
    text = " ".join([TEXT, *words])
    entries += early([entry for entry in entries if entry.metric == "mnll"], records)
    return Shown(NAME, TITLE, SOURCE, text, figures, entries)


def guide(bounds: Sequence[Entry], densities: Sequence[Entry]) -> str:
    """Does the bound choose the best network, and is the largest one the best?"""
    ranks = correlation(*(ranked([entry.mean for entry in found]) for found in (bounds, densities)))
    best = min(densities, key=lambda entry: entry.mean)
    largest = max(densities, key=lambda entry: (entry.depth, entry.width))
    chosen = densities[max(range(len(bounds)), key=lambda place: bounds[place].mean)]
    choice = "which the bound chooses, too" if chosen is best else f"the bound chooses {_shape(chosen)}"
    return (
        f"the rank correlation of bound and test MNLL is {ranks:.2f}; the best MNLL has {_shape(best)}, {choice}; the "
        f"largest has {_shape(largest)}"
    )


def _shape(entry: Entry) -> str:
    return f"{entry.depth} x {entry.width} ({entry.mean:.2f})"


def ranked(values: Sequence[float]) -> list[float]:
    """The place of each value among all, from 0."""
    return [float(sum(other < value for other in values)) for value in values]


def draw(dataset: str, mnll: Sequence[Entry], elbo: Sequence[Entry], records: Sequence[Record]) -> Figure:
    """Three drawings side by side."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(13, 3.8), layout="constrained")
    first, second, third = canvas.subplots(1, 3)
    draw_sizes(first, mnll, lambda entry: f"{entry.depth} hidden", dataset)
    shape = "{depth} x {width}".format_map
    draw_curves(second, learning_curves(records, lambda record: shape(record["inputs"])), dataset)
    third.plot([e.mean for e in elbo], [e.mean for e in mnll], "o")
    for bound, density in zip(elbo, mnll, strict=True):
        third.annotate(f"{bound.depth} x {bound.width}", (bound.mean, density.mean), fontsize=7)
    third.set(title=dataset, xlabel="bound, nats", ylabel="test MNLL")
    third.grid(alpha=0.3)
    words = "; ".join(f"{e.depth} x {e.width}: {e.mean:.2f}" for e in mnll)
    return Figure(f"Capacity on {dataset}", figure_svg(canvas), alternative=f"Test MNLL: {words}.")
