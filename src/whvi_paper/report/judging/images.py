"""Claims on convolutional networks."""

from collections.abc import Sequence
from math import sqrt

from whvi_paper.blocks import Entry
from whvi_paper.report.judging.verdict import Finding, Judge, Verdict

IMAGES = 10_000
"""Test images of CIFAR-10."""


def no_loss_in_convnets(entries: Sequence[Entry]) -> Finding:
    """That WHVI in linear maps costs no error (two std of a difference) and no calibration (0.01) beside MC dropout."""
    found = {(e.model, e.method, e.metric): e.mean for e in entries}
    models = [model for model, who, metric in found if (who, metric) == ("whvi", "error")]
    models = [model for model in models if (model, "mcd", "error") in found]
    told, good = [], []
    for model in models:
        ours, theirs = (found[model, who, "error"] for who in ("whvi", "mcd"))
        slack = 2 * sqrt(2 * theirs * (1 - theirs) / IMAGES)
        calibrated = found[model, "whvi", "ece"] <= found[model, "mcd", "ece"] + 0.01
        good.append(ours <= theirs + slack and calibrated)
        told.append(f"{model}: {ours:.2%} beside {theirs:.2%}")
    return (Verdict.REPRODUCED if all(good) else Verdict.CONTRADICTED) if good else Verdict.OPEN, "; ".join(told)


def flows_help(entries: Sequence[Entry]) -> Finding:
    """That NF-WHVI has the lower error in convolutional networks."""
    found = {(e.model, e.method): e.mean for e in entries if e.metric == "error"}
    models = [model for model, who in found if who == "nf-whvi" and (model, "whvi") in found]
    good = [found[model, "nf-whvi"] < found[model, "whvi"] for model in models]
    told = "; ".join(f"{m}: {found[m, 'nf-whvi']:.2%} beside {found[m, 'whvi']:.2%}" for m in models)
    return (Verdict.REPRODUCED if all(good) else Verdict.NOT_REPRODUCED) if good else Verdict.OPEN, told


def filters(worse: str, than: str) -> Judge:
    """That one treatment of filters has an error above another's by two std of a difference of shares."""

    def judge(entries: Sequence[Entry]) -> Finding:
        found = {e.method: e.mean for e in entries if e.metric == "error"}
        if not {worse, than} <= found.keys():
            return Verdict.OPEN, ""
        one, other = found[worse], found[than]
        slack = 2 * sqrt((one * (1 - one) + other * (1 - other)) / IMAGES)
        verdict = Verdict.REPRODUCED if one - other > slack else Verdict.NOT_REPRODUCED
        return verdict, f"error {one:.3f} beside {other:.3f}"

    return judge
