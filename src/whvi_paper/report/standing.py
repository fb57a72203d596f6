"""How a number of ours stands to the paper's. Lower is better for every metric."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from whvi_paper.blocks import Entry, Tone

SYMBOLS = {Tone.BETTER: "▲", Tone.WITHIN: "●", Tone.WORSE: "▼", Tone.PLAIN: ""}
"""So that a tone is seen without its colour too."""


def target(entry: Entry) -> float | None:
    """What to compare with: the paper's number, corrected where it must be; None where it has none."""
    return entry.paper_mean if entry.paper_corrected is None else entry.paper_corrected


def tone(entry: Entry) -> Tone:
    """Better, within one of the paper's standard deviations, or worse.

    The paper prints two decimals, in some tables four. So ours is better if it is not above the paper's when printed
    like it, and within one std if it is not above mean + std + half a unit of the last decimal. What is not finite is
    worse, what was not run is not compared.

    >>> cell = Entry("uci-regression", "whvi", "kin8nm", "mlp", 2, 128, "rmse", 0.0749, 0.002, 8, 0.07, 0.01)
    >>> [tone(replace(cell, mean=mean)).value for mean in (0.0749, 0.0751, 0.0851)]
    ['better', 'within one std', 'worse']
    """
    wanted = target(entry)
    if wanted is None or not entry.n:
        return Tone.PLAIN
    printed = wanted if entry.paper_mean is None else entry.paper_mean
    shift = wanted - printed
    decimals = entry.paper_decimals
    if entry.mean <= wanted or (math.isfinite(entry.mean) and round(entry.mean - shift, decimals) <= printed):
        return Tone.BETTER
    if entry.mean <= wanted + (entry.paper_std or 0.0) + 0.5 * 10**-decimals:
        return Tone.WITHIN
    return Tone.WORSE


def deviation(entry: Entry) -> float | None:
    """(ours - paper's) / the paper's std; None where the paper has no number, or its std is printed as 0.00."""
    wanted = target(entry)
    return None if wanted is None or not entry.paper_std else (entry.mean - wanted) / entry.paper_std


def near(entry: Entry) -> bool:
    """Whether ours is the paper's, above or below it, up to one of its standard deviations and its rounding.

    >>> cell = Entry("protocol", "whvi", "yacht", "mlp", 2, 128, "rmse", 0.5, 0.1, 8, paper_mean=0.69, paper_std=0.16)
    >>> near(cell), near(replace(cell, mean=0.6)), near(replace(cell, mean=0.84))
    (False, True, True)
    """
    wanted, slack = target(entry), (entry.paper_std or 0.0) + 0.5 * 10**-entry.paper_decimals
    return wanted is not None and abs(entry.mean - wanted) <= slack


def runs(entry: Entry) -> Hashable:
    """The runs behind a number: its metrics share them, and so may exhibits."""
    cell = entry.exhibit, entry.method, entry.dataset, entry.model, entry.depth, entry.width
    return frozenset(entry.records) or cell


def once(entries: Iterable[Entry]) -> list[Entry]:
    """The entries without those that are the same metric of the same runs, which several exhibits may show.

    One that stands beside a number of the paper stays.
    """
    found: dict[Hashable, Entry] = {}
    for entry in entries:
        key = runs(entry), entry.metric
        if key not in found or target(entry) is not None:
            found[key] = entry
    return list(found.values())


def cell_key(entry: Entry) -> tuple[object, ...]:
    """What the methods of one comparison share: all but the method and its numbers."""
    return entry.exhibit, entry.dataset, entry.model, entry.depth, entry.width, entry.metric


def paper_best(entries: Iterable[Entry]) -> Entry | None:
    """The entry whose method is the best in the paper, of those that the paper has a number for."""
    return min((entry for entry in entries if target(entry) is not None), key=lambda e: target(e) or 0.0, default=None)


def against(entry: Entry, rival: Entry) -> Entry:
    """The entry, beside the paper's number for another method."""
    return replace(entry, paper_mean=rival.paper_mean, paper_std=rival.paper_std, paper_corrected=rival.paper_corrected)


def against_best(entries: Sequence[Entry], method: str = "whvi") -> list[Entry]:
    """Each entry of the method beside the number of the paper's best one, where the paper compares it with others."""
    groups: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(cell_key(entry), []).append(entry)
    found = []
    for group in groups.values():
        ours = next((e for e in group if e.method == method and e.n and target(e) is not None), None)
        best = paper_best(group)
        if ours is not None and best is not None and any(e is not ours and target(e) is not None for e in group):
            found.append(against(ours, best))
    return found


def counts(entries: Iterable[Entry]) -> dict[Tone, int]:
    """How many entries there are of each tone."""
    tones = [tone(entry) for entry in entries]
    return {kind: tones.count(kind) for kind in Tone}
