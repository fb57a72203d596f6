"""Claims about structures of the weight, on the data of their exhibit."""

from collections.abc import Callable, Sequence

from whvi_paper.blocks import Entry
from whvi_paper.printed import STRUCTURES
from whvi_paper.report.compare import label
from whvi_paper.report.judging.verdict import Finding, Verdict, values


def first_of_structures(entries: Sequence[Entry]) -> Finding:
    """That WHVI is the best of the paper's structures, on the complete data where several were run there."""
    return _is_the(entries, "whvi", "best", min)


def worst_of_structures(entries: Sequence[Entry]) -> Finding:
    """That G H, the most constrained structure, has the highest error and MNLL of all."""
    return _is_the(entries, "GH", "highest", max)


def _is_the(entries: Sequence[Entry], who: str, place: str, extreme: Callable[..., str]) -> Finding:
    """That a structure has the lowest or the highest error and MNLL of all."""
    dataset, names = _structures(entries)
    if who not in names or len(names) < 2:
        return Verdict.OPEN, ""
    told, there = [], []
    for metric in ("error", "mnll"):
        found = {name: mean for (name, *_), mean in values(entries, metric=metric, dataset=dataset).items()}
        first = extreme(names, key=lambda name: found[name])
        there.append(first == who)
        told.append(f"{label(metric)} {found[who]:.3f}, {place} {found[first]:.3f} ({label(first)})")
    return Verdict.REPRODUCED if all(there) else Verdict.NOT_REPRODUCED, f"on {dataset}: {'; '.join(told)}"


def _structures(entries: Sequence[Entry]) -> tuple[str, list[str]]:
    """The data with most of the paper's structures, the complete drive among equals; and these structures."""
    known = [name for name in STRUCTURES if name != "mcd"]
    run = {e.dataset: [name for name in known if any((o.method, o.dataset) == (name, e.dataset) for o in entries)]
           for e in entries}  # fmt: skip
    return max(run.items(), key=lambda one: (len(one[1]), one[0] == "drive"), default=("", []))
