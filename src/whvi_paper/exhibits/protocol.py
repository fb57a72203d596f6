"""Does the paper's protocol, to the letter, give the paper's numbers? Regression with two layers of 128 units."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whvi_paper import grid, printed, recipe
from whvi_paper.blocks import Entry, Shown
from whvi_paper.exhibits.uci_regression import regression
from whvi_paper.jobs import Job
from whvi_paper.report.compare import label
from whvi_paper.report.standing import near, target
from whvi_paper.store import Record

NAME = grid.PROTOCOL
TITLE = "The paper's protocol to the letter, 2 x 128"
SOURCE = "Table 3"
TEXT = (
    "All other numbers here come from our recipe. This is the setup as the paper prints it: Adam at 1e-3 (1 + "
    "0.0005 t)^-0.3, targets on their original scale, the full KL from the first step, H without normalisation "
    "with a prior variance of 1e-5 for g, 500 steps with the noise fixed and 50,000 with it learned. What the "
    "paper does not state follows the authors' public code (github.com/srossi93/vardl): scales from U(-b, b) "
    "with variance 2 / D, g at mean 0 and variance 2 / D, plain weights at mean 0 and variance exp(-4) with the "
    "prior N(0, 1 / inputs), one noise variance for all outputs, initially exp(-1.5). “whvi-he” is initialised "
    "like our layers, in this parameterisation: g at the size of its prior, W with variance 2 / inputs."
)
METHODS = ("whvi", "whvi-he", "mcd", "mfg")
"""“whvi-he” is WHVI with the start of our layers."""


def jobs(profile: str) -> list[Job]:
    """Eight datasets, and the methods that the paper ran with its own code."""
    return grid.jobs(NAME, printed.REGRESSION_DATASETS, METHODS, [(2, 128)], profile, how=recipe.PROTOCOL)


def paper(method: str, *place: Any) -> printed.Pair | None:
    """What the paper prints; for WHVI with another start, that of WHVI.

    >>> paper("whvi-he", "yacht", "rmse", 2, 128)
    (0.69, 0.16)
    """
    return printed.regression(method.partition("-")[0], *place)


def show(records: Sequence[Record]) -> Shown:
    """Errors and densities beside the paper's, and how many are within its spread, on either side."""
    shown = regression(Shown(NAME, TITLE, SOURCE, TEXT, ()), records, METHODS, [(2, 128)], paper)
    told = " ".join(filter(None, (answer(shown.authors, method) for method in METHODS)))
    question = "Does it give the printed numbers? Ours as the authors' code measures:"
    return replace(shown, text=f"{TEXT} {question} {told}")


def answer(entries: Sequence[Entry], method: str) -> str:
    """How many numbers of a method are the paper's within its spread, and how the others stand; "" if none was run."""
    mine = [entry for entry in entries if entry.method == method and entry.n and target(entry) is not None]
    if not mine:
        return ""
    others = [entry for entry in mine if not near(entry)]
    higher = [f"{entry.dataset} ({label(entry.metric)})" for entry in others if entry.mean > (target(entry) or 0.0)]
    worse = f"{len(higher)} are worse: {', '.join(higher)}" if higher else "none is worse"
    return (
        f"{len(mine) - len(others)} of {len(mine)} numbers of {label(method)} are within one of the paper's standard "
        f"deviations, {len(others) - len(higher)} are better by more, {worse}."
    )
