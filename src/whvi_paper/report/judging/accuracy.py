"""Claims on how well networks and processes predict."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from whvi_paper.blocks import Entry
from whvi_paper.printed import REGRESSION_DATASETS, WIDTHS
from whvi_paper.report.compare import label
from whvi_paper.report.judging.verdict import Finding, Judge, Verdict, values
from whvi_paper.report.standing import near, target


def majority(rival: str, *metrics: str) -> Judge:
    """That WHVI is better than a rival in more than half of the comparisons; in fewer than half is the contrary."""

    def judge(entries: Sequence[Entry]) -> Finding:
        better, total, told = compared(entries, rival, metrics)
        if not total:
            return Verdict.OPEN, ""
        verdict = Verdict.REPRODUCED if 2 * better > total else Verdict.NOT_REPRODUCED
        return (Verdict.CONTRADICTED if 2 * better < total else verdict), told

    return judge


def always(rival: str, *metrics: str) -> Judge:
    """That WHVI is better than a rival in all comparisons; in none is the contrary. On the complete data, if any."""

    def judge(entries: Sequence[Entry]) -> Finding:
        for dataset in sorted({entry.dataset for entry in entries}, key=len):  # the name of the complete one is shorter
            mine = [entry for entry in entries if entry.dataset == dataset]
            better, total, told = compared(mine, rival, metrics)
            if total:
                verdict = Verdict.REPRODUCED if better == total else Verdict.NOT_REPRODUCED
                return (verdict if better else Verdict.CONTRADICTED), f"on {dataset} {told}"
        return Verdict.OPEN, ""

    return judge


def beside_whvi(entries: Sequence[Entry], method: str, metric: str) -> dict[tuple[str, int], tuple[float, float]]:
    """(dataset, width) -> a mean of WHVI and that of another method, wherever there are both."""
    found = values(entries, metric=metric)
    return {
        (dataset, width): (found["whvi", dataset, width], mean)
        for (who, dataset, width), mean in found.items()
        if who == method and ("whvi", dataset, width) in found
    }


def compared(entries: Sequence[Entry], rival: str, metrics: Sequence[str]) -> tuple[int, int, str]:
    """In how many comparisons WHVI has the lower number, of how many, and in words for each metric."""
    parts, better, total = [], 0, 0
    for metric in metrics:
        pairs = beside_whvi(entries, rival, metric).values()
        wins = sum(ours < theirs for ours, theirs in pairs)
        better, total = better + wins, total + len(pairs)
        parts.append(f"{wins} of {len(pairs)} by {label(metric)}")
    return better, total, f"WHVI is ahead in {', '.join(parts)}"


def as_good(method: str, slack: float) -> Judge:
    """That a variant of WHVI on the structures' data differs from it in error by no more than a share."""

    def judge(entries: Sequence[Entry]) -> Finding:
        both = {dataset: pair for (dataset, _), pair in beside_whvi(entries, method, "error").items()}
        if not both:
            return Verdict.OPEN, ""
        close = all(abs(other - ours) <= slack * ours for ours, other in both.values())
        told = "; ".join(f"{dataset}: error {other:.3f} beside {ours:.3f}" for dataset, (ours, other) in both.items())
        return Verdict.REPRODUCED if close else Verdict.NOT_REPRODUCED, told

    return judge


def no_improvement(method: str) -> Judge:
    """That a variant of WHVI is better in no more than half of the numbers, by RMSE and MNLL."""

    def judge(entries: Sequence[Entry]) -> Finding:
        told, better, total = [], 0, 0
        for metric in ("rmse", "mnll"):
            pairs = beside_whvi(entries, method, metric).values()
            wins = sum(other < ours for ours, other in pairs)
            better, total = better + wins, total + len(pairs)
            told.append(f"{wins} of {len(pairs)} by {label(metric)}")
        if not total:
            return Verdict.OPEN, ""
        verdict = Verdict.REPRODUCED if 2 * better <= total else Verdict.NOT_REPRODUCED
        return verdict, f"it is better in {', '.join(told)}"

    return judge


def nearest_to_truth(entries: Sequence[Entry]) -> Finding:
    """That WHVI is nearer to SGHMC than mean field and MC dropout."""
    found = {who: mean for (who, *_), mean in values(entries, metric="wasserstein").items()}
    if not {"g-whvi", "mfg", "mcd"} <= found.keys():
        return Verdict.OPEN, ""
    good = found["g-whvi"] < min(found["mfg"], found["mcd"])
    told = ", ".join(f"{label(who)} {mean:.3f}" for who, mean in found.items())
    return Verdict.REPRODUCED if good else Verdict.CONTRADICTED, f"distance to SGHMC: {told}"


def parameter_counts(entries: Sequence[Entry]) -> Finding:
    """That the toy networks have 1541 and 4141 parameters, and MFG and MCD about 35k and 17k."""
    counts = {entry.method: entry.parameters for entry in entries}
    wanted = {"g-whvi": (1541, 0), "nf-whvi": (4141, 0), "mfg": (35_000, 2_000), "mcd": (17_000, 500)}
    if not wanted.keys() <= counts.keys():
        return Verdict.OPEN, ""
    good = all(abs((counts[who] or 0) - number) <= slack for who, (number, slack) in wanted.items())
    told = ", ".join(f"{label(who)} {counts[who]:,}" for who in wanted)
    return Verdict.REPRODUCED if good else Verdict.CONTRADICTED, told


def printed_recipe(entries: Sequence[Entry]) -> Finding:
    """That the protocol gives the numbers of WHVI, as the authors' code measures, within one std on either side."""
    mine = [e for e in entries if e.method == "whvi" and e.metric in ("rmse_of_samples", "expected_nll")]
    compared = [entry for entry in mine if target(entry) is not None]
    if not compared:
        return Verdict.OPEN, ""
    close = sum(map(near, compared))
    worse = sum(not near(entry) and entry.mean > (target(entry) or 0.0) for entry in compared)
    told = (
        f"of {len(compared)} numbers of WHVI {close} are within one std of the paper's, {worse} worse, "
        f"{len(compared) - close - worse} better"
    )
    return Verdict.REPRODUCED if not worse else Verdict.NOT_REPRODUCED, told


def better_with_width(entries: Sequence[Entry]) -> Finding:
    """That MNLL of WHVI on yacht falls with the width."""
    found = {width: mean for (_, _, width), mean in values(entries, method="whvi", metric="mnll").items()}
    if len(found) < len(WIDTHS):
        return Verdict.OPEN, ""
    line = [found[width] for width in WIDTHS]
    falls = all(after <= before for before, after in pairwise(line))
    verdict = Verdict.REPRODUCED if falls else Verdict.NOT_REPRODUCED
    if line[-1] > line[0]:
        verdict = Verdict.CONTRADICTED
    return verdict, f"MNLL {', '.join(f'{mean:.2f}' for mean in line)} with {', '.join(map(str, WIDTHS))} units"


def lowest_at_all_widths(entries: Sequence[Entry]) -> Finding:
    """That WHVI has the lowest MNLL on yacht wherever another method was run."""
    found = {(width, who): mean for (who, _, width), mean in values(entries, metric="mnll").items()}
    widths = sorted({width for width, who in found if who != "whvi" and (width, "whvi") in found})
    if not widths:
        return Verdict.OPEN, ""
    lowest = {
        width: min((who for at, who in found if at == width), key=lambda who: found[width, who]) for width in widths
    }
    ahead = sum(who == "whvi" for who in lowest.values())
    verdict = Verdict.REPRODUCED if ahead == len(widths) else Verdict.NOT_REPRODUCED
    told = ", ".join(f"{label(who)} with {width} units" for width, who in lowest.items())
    return verdict if ahead else Verdict.CONTRADICTED, f"the lowest is that of {told}"


def mean_field_overregularised(entries: Sequence[Entry]) -> Finding:
    """That mean field is the worse the wider, as its KL outweighs the data."""
    found = values(entries, method="mfg", metric="rmse")
    lines = [[found.get(("mfg", dataset, width)) for width in WIDTHS] for dataset in REGRESSION_DATASETS]
    complete = [[mean for mean in line if mean is not None] for line in lines if None not in line]
    if not complete:
        return Verdict.OPEN, ""
    worse = sum(line[-1] > line[0] for line in complete)
    verdict = Verdict.REPRODUCED if 2 * worse > len(complete) else Verdict.NOT_REPRODUCED
    return verdict, f"RMSE with 512 units is above that with 64 on {worse} of {len(complete)} datasets"


def bigger_is_better(metric: str) -> Judge:
    """That the largest network has the best MNLL."""

    def judge(entries: Sequence[Entry]) -> Finding:
        told, good = [], []
        found = [entry for entry in entries if entry.metric == metric]
        for dataset in dict.fromkeys(entry.dataset for entry in found):
            mine = [entry for entry in found if entry.dataset == dataset]
            best, last = min(mine, key=lambda e: e.mean), max(mine, key=lambda e: (e.depth, e.width))
            good.append(best is last)
            told.append(
                f"{dataset}: {best.depth} x {best.width} is best ({best.mean:.2f}), "
                f"{last.depth} x {last.width} has {last.mean:.2f}"
            )
        return (Verdict.REPRODUCED if all(good) else Verdict.CONTRADICTED) if good else Verdict.OPEN, "; ".join(told)

    return judge


def bound_chooses(entries: Sequence[Entry]) -> Finding:
    """That the network of the highest bound has the best MNLL."""
    told, good = [], []
    for dataset in dict.fromkeys(entry.dataset for entry in entries):
        bounds, densities = (
            {(e.depth, e.width): e.mean for e in entries if (e.dataset, e.metric) == (dataset, metric)}
            for metric in ("elbo", "mnll")
        )
        chosen, best = max(bounds, key=lambda at: bounds[at]), min(densities, key=lambda at: densities[at])
        good.append(chosen == best)
        told.append(f"{dataset}: it chooses {densities[chosen]:.2f}, the best is {densities[best]:.2f}")
    return (Verdict.REPRODUCED if all(good) else Verdict.NOT_REPRODUCED) if good else Verdict.OPEN, "; ".join(told)


def processes(rival: str, better: bool) -> Judge:
    """That WHVI has a lower (or higher) RMSE than a rival under the paper's protocol, in most cases."""

    def judge(entries: Sequence[Entry]) -> Finding:
        models = ("gp diagonal", "gp full")
        mine = [entry for entry in entries if entry.metric == "rmse" and entry.model in models]
        found = {(e.method, e.dataset, e.model, e.width): e.mean for e in mine}
        pairs = [
            (e.mean, found[rival, e.dataset, e.model, e.width])
            for e in mine
            if e.method == "whvi" and (rival, e.dataset, e.model, e.width) in found
        ]
        if not pairs:
            return Verdict.OPEN, ""
        as_told = sum((ours < theirs) == better for ours, theirs in pairs)
        ratio = fmean(ours / theirs for ours, theirs in pairs)
        verdict = Verdict.REPRODUCED if 2 * as_told > len(pairs) else Verdict.NOT_REPRODUCED
        return verdict, f"in {as_told} of {len(pairs)} cases; on average its RMSE is {ratio:.2f} times the rival's"

    return judge
