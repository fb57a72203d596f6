"""Claims about structures of the weight, on the data of their exhibit."""

from collections.abc import Sequence

from whvi_paper.blocks import Entry
from whvi_paper.printed import STRUCTURES
from whvi_paper.report.compare import label
from whvi_paper.report.judging.verdict import Finding, Verdict, values


def first_of_structures(entries: Sequence[Entry]) -> Finding:
    """That WHVI is the best of the paper's structures, on the complete data where several were run there."""
    dataset, names = _structures(entries)
    if "whvi" not in names or len(names) < 2:
        return Verdict.OPEN, ""
    told, first = [], []
    for metric in ("error", "mnll"):
        found = {who: mean for (who, *_), mean in values(entries, metric=metric, dataset=dataset).items()}
        best = min(names, key=lambda who: found[who])
        first.append(best == "whvi")
        told.append(f"{label(metric)} {found['whvi']:.3f}, best {found[best]:.3f} ({label(best)})")
    return Verdict.REPRODUCED if all(first) else Verdict.NOT_REPRODUCED, f"on {dataset}: {'; '.join(told)}"


def worst_of_structures(entries: Sequence[Entry]) -> Finding:
    """That G H, the most constrained structure, has the highest error and MNLL of all."""
    dataset, names = _structures(entries)
    if "GH" not in names or len(names) < 2:
        return Verdict.OPEN, ""
    told, last = [], []
    for metric in ("error", "mnll"):
        found = {who: mean for (who, *_), mean in values(entries, metric=metric, dataset=dataset).items()}
        worst = max(names, key=lambda who: found[who])
        last.append(worst == "GH")
        told.append(f"{label(metric)} {found['GH']:.3f}, highest {found[worst]:.3f} ({worst})")
    return Verdict.REPRODUCED if all(last) else Verdict.NOT_REPRODUCED, f"on {dataset}: {'; '.join(told)}"


def _structures(entries: Sequence[Entry]) -> tuple[str, list[str]]:
    """The data on which most of the paper's structures were run, of equals the complete ones; and these structures."""
    known = [name for name in STRUCTURES if name != "mcd"]
    run = {e.dataset: [name for name in known if any((o.method, o.dataset) == (name, e.dataset) for o in entries)]
           for e in entries}  # fmt: skip
    return max(run.items(), key=lambda one: (len(one[1]), one[0] == "drive"), default=("", []))
