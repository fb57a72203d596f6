"""Claims on what is measured: times, the growth with a size, the variance of gradients."""

from collections.abc import Sequence
from itertools import pairwise

from whvi_paper import measured
from whvi_paper.blocks import Entry
from whvi_paper.report.compare import label
from whvi_paper.report.judging.verdict import Finding, Judge, Verdict, values


def exponent(method: str, metric: str, wanted: float, slack: float) -> Judge:
    """That what is measured grows with a power of the size, or slower."""

    def judge(entries: Sequence[Entry]) -> Finding:
        line = sorted((size, mean) for (who, _, size), mean in values(entries, metric=metric).items() if who == method)
        if len(line) < 2:
            return Verdict.OPEN, ""
        slope = measured.exponent(line)
        verdict = Verdict.REPRODUCED if slope <= wanted + slack else Verdict.CONTRADICTED
        return verdict, f"the exponent is {slope:.2f}"

    return judge


def smaller_variance(entries: Sequence[Entry]) -> Finding:
    """That gradients vary less with a draw for each example than with one for the batch, in all cases."""
    found = {(e.dataset, e.model, e.method): e.mean for e in entries if e.metric == "gradient_variance"}
    ratios = [
        mean / found[dataset, model, "example"] for (dataset, model, draws), mean in found.items() if draws == "batch"
    ]
    if not ratios:
        return Verdict.OPEN, ""
    verdict = Verdict.REPRODUCED if min(ratios) > 1.0 else Verdict.NOT_REPRODUCED
    return verdict, f"it is {min(ratios):.1f} to {max(ratios):.1f} times smaller, in {len(ratios)} cases"


def break_even(entries: Sequence[Entry]) -> Finding:
    """That on a CPU the transform is the faster one from D = 512 or 1024 on: there, and not before."""
    found = values(entries, dataset="batch 512", metric="seconds")
    sizes = sorted(size for who, _, size in found if who == "whvi")
    faster = [size for size in sizes if found["whvi", "batch 512", size] < found["matmul", "batch 512", size]]
    if not sizes:
        return Verdict.OPEN, ""
    good = {size for size in sizes if size >= 1024} <= set(faster)
    told = f"it is the faster one at {len(faster)} of {len(sizes)} sizes, the smallest D = {min(faster, default=0)}"
    return Verdict.REPRODUCED if good else Verdict.CONTRADICTED, told


def fastest_prediction(entries: Sequence[Entry]) -> Finding:
    """That WHVI predicts fastest in the widest network, and that NNG takes longest, on all data that were timed."""
    found = values(entries, metric="seconds")
    if not found:
        return Verdict.OPEN, ""
    width, good, told = max(size for *_, size in found), [], []
    for at in dict.fromkeys(at for _, at, _ in found):
        times = {who: mean * 1e3 for (who, where, size), mean in found.items() if (where, size) == (at, width)}
        if times:
            good.append(min(times, key=times.__getitem__) == "whvi" and max(times, key=times.__getitem__) == "nng")
            told.append(f"{at}: {', '.join(f'{label(who)} {mean:.0f}' for who, mean in times.items())}")
    verdict = Verdict.REPRODUCED if all(good) else Verdict.CONTRADICTED
    return verdict, f"milliseconds with {width} units, {'; '.join(told)}"


def half_faster(entries: Sequence[Entry]) -> Finding:
    """That AlexNet with WHVI predicts 51 % faster than with MC dropout, up to a tenth."""
    found = {who: mean for (who, at, _), mean in values(entries, metric="seconds").items() if at.startswith("network")}
    if not {"whvi", "mcd"} <= found.keys():
        return Verdict.OPEN, ""
    ratio = found["mcd"] / found["whvi"]
    verdict = Verdict.REPRODUCED if ratio >= 0.9 * 1.51 else Verdict.NOT_REPRODUCED
    return verdict, f"MC dropout takes {ratio:.2f} times as long, on a CPU"


def approximates(entries: Sequence[Entry]) -> Finding:
    """That the error of approximating a random matrix does not grow with D; W = 0 has 0.577."""
    line = sorted((entry.width, entry.mean) for entry in entries)
    if len(line) < 2:
        return Verdict.OPEN, ""
    grows = all(before[1] <= after[1] for before, after in pairwise(line))
    told = (
        f"the least RMSE is {line[1][1]:.3f} at D = {line[1][0]}, {line[-1][1]:.3f} at {line[-1][0]}; W = 0 has 0.577"
    )
    return Verdict.CONTRADICTED if grows else Verdict.REPRODUCED, told
