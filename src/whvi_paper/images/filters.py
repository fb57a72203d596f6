"""Treatments of convolutional filters, and what their records say: is it true that WHVI on filters degrades?"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from whvi_paper import printed
from whvi_paper.store import Record

DATASET = "cifar10"
"""What the paper's numbers, and its claim, are about."""


class FilterTreatment(NamedTuple):
    """Of the filters; the linear map has WHVI."""

    method: str
    """Of the whole network."""
    label: str
    rate: float


TREATMENTS = {
    "mcd": FilterTreatment("whvi", "MC dropout", 1e-2),
    "whvi": FilterTreatment("whvi-filters", "WHVI", 3e-2),
    "whvi-own-g": FilterTreatment("whvi-filters-own-g", "WHVI, own g for each block", 3e-2),
    "whvi-SHGHSH": FilterTreatment("whvi-filters-SHGHSH", "WHVI, S H G H S H", 3e-2),
    "whvi-t4": FilterTreatment("whvi-filters-t4", "WHVI, T = 4", 3e-2),
    "low-rank-mcd": FilterTreatment("low-rank-mcd", "low-rank MC dropout", 3e-2),
}
BASELINE, PLAIN, TERMS, LOW_RANK = "mcd", "whvi", "whvi-t4", "low-rank-mcd"
OURS = tuple(name for name in TREATMENTS if name.startswith("whvi"))
JUDGED = {"error": "error", "mnll": "MNLL"}
RULE = (
    "One run each. The rule: an error is worse if it is higher by more than two standard deviations of a difference of "
    "two shares of {images:,} images; an MNLL if it is higher at three decimals, as its spread is not stored."
)


def answer(runs: Mapping[str, Record]) -> str:
    """Whether WHVI on filters is worse than MC dropout on filters, and how it stands to as few parameters otherwise.

    Only the paper's data can answer.
    """
    ours = [name for name in OURS if name in runs]
    if BASELINE not in runs or not ours:
        return "The treatments to compare are not trained yet."
    if any(record["inputs"]["dataset"] != DATASET for record in runs.values()):
        return f"Whether WHVI on filters degrades is a question about {DATASET}: these images do not answer it."
    verdicts = "; ".join(f"{word}: {verdict(runs, ours, metric)}" for metric, word in JUDGED.items())
    found = "; ".join(f"{TREATMENTS[name].label}: {_numbers(runs[name])}" for name in [BASELINE, *ours])
    rule = RULE.format(images=image_count(runs[BASELINE]))
    text = f"Is it true that WHVI on filters degrades? Here, {verdicts}. {rule} Error and MNLL, parameters: {found}."
    if PLAIN in runs and TERMS in runs and is_worse(runs[PLAIN], runs[BASELINE], "error"):
        text += f" {TREATMENTS[TERMS].label} closes {gap_closed(runs):.0%} of the gap in error."
    if LOW_RANK in runs:
        best = min(ours, key=lambda name: float(_metrics(runs[name])["mnll"]))
        stands = ", ".join(
            f"{word} {'worse' if is_worse(runs[LOW_RANK], runs[best], metric) else 'no worse'}"
            for metric, word in JUDGED.items()
        )
        text += (
            f" Low-rank filters with dropout have about as few parameters, and {_numbers(runs[LOW_RANK])}; "
            f"beside {TREATMENTS[best].label}: {stands}."
        )
    return text


def verdict(runs: Mapping[str, Record], ours: Sequence[str], metric: str) -> str:
    """Yes if all of ours are worse than MC dropout, no if none is; else which are."""
    worse = [TREATMENTS[name].label for name in ours if is_worse(runs[name], runs[BASELINE], metric)]
    return "no" if not worse else "yes" if len(worse) == len(ours) else f"in part ({' / '.join(worse)})"


def gap_closed(runs: Mapping[str, Record]) -> float:
    """The share of the distance from the error of WHVI to that of MC dropout that several terms save."""
    baseline, plain, terms = (_metrics(runs[name])["error"] for name in (BASELINE, PLAIN, TERMS))
    return (plain - terms) / (plain - baseline)


def is_worse(one: Record, other: Record, metric: str) -> bool:
    """An error that is higher by more than two standard deviations of a difference of shares; a higher MNLL."""
    mine, theirs = _metrics(one)[metric], _metrics(other)[metric]
    if metric != "error":
        return round(mine, printed.FILTER_DECIMALS) > round(theirs, printed.FILTER_DECIMALS)
    pairs = (mine, image_count(one)), (theirs, image_count(other))
    return mine - theirs > 2 * sqrt(sum(share * (1 - share) / images for share, images in pairs))


def image_count(record: Record) -> int:
    """How many there were."""
    return int(sum(count for *_, count in record["results"]["reliability"]))


def _metrics(record: Record) -> Mapping[str, float]:
    metrics: Mapping[str, float] = record["results"]["metrics"]
    return metrics


def _numbers(record: Record) -> str:
    metrics = _metrics(record)
    return f"{metrics['error']:.3f} and {metrics['mnll']:.3f}, {record['results']['parameters']:,}"
