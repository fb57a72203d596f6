"""What matters in training: ``python benchmarks/recipe.py [dataset ...] [--shape 2x128] [--only variant] [--table]``.

Variants of the recipe on rows held out from the training part of each split (a tenth of it); the rows that test the
published numbers are not touched. 10,000 steps and 4 splits, or with ``--complete`` those of the paper's protocol.
Writes ``results/bench/recipe.json``, one entry after the other; what is there is not computed again. ``--table`` prints
it.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn

from whvi.inference import SVI, Constant, CosineDecay, LinearWarmup, PowerDecay, Scaled, fit_replicas
from whvi.inference.compiled import can_compile
from whvi.nn import MCDropout, MeanFieldLinear
from whvi_paper.baselines import GaussianFactorsLinear
from whvi_paper.bench.record import fill, stored
from whvi_paper.data import Split, load, split
from whvi_paper.networks.layers import WHVILinear
from whvi_paper.networks.perceptrons import DROPOUT, low_rank, mean_field, narrow
from whvi_paper.recipe import configuration, profile
from whvi_paper.training import Standardised, evaluate, final_elbo, make_likelihood, outputs_of

RECORD = Path(__file__).parent.parent / "results/bench/recipe.json"
SAMPLES = 64
DATASETS = ("concrete", "protein")


@dataclass(frozen=True)
class Setup:
    """A network and how long it is trained."""

    depth: int = 2
    width: int = 128
    steps: int = 10_000
    splits: int = 4

    def place(self, dataset: str) -> str:
        """Its name in the record."""
        shape = "" if (self.depth, self.width) == (2, 128) else f" {self.depth} x {self.width}"
        return f"{dataset}{shape}{'' if self.steps == Setup.steps else ', complete'}"


def dropout(inputs: int, outputs: int) -> nn.Module:
    """A layer of MC dropout."""
    return MCDropout(nn.Linear(inputs, outputs), DROPOUT)


@dataclass(frozen=True)
class Variant:
    """One way to train; the default is the recipe."""

    rate: float = 1e-2
    cosine: bool = True
    warm_up: float = 0.0
    """Share of the steps over which the weight of the KL rises to 1."""
    layer: Callable[[int, int], nn.Module] = WHVILinear
    last: Callable[[int, int], nn.Module] = MeanFieldLinear
    narrower: float = 1.0
    """How many times smaller the standard deviations of g or of low-rank factors are at the start."""
    kl_weight: float = 1.0
    """Of the KL once it is whole; below 1 the posterior is tempered, and the objective no bound."""


def whvi(**options: Any) -> Callable[[int, int], nn.Module]:
    """WHVI layers with options."""
    return lambda inputs, outputs: WHVILinear(inputs, outputs, **options)


def scaled(factor: float) -> Callable[[int, int], nn.Module]:
    """WHVI layers whose weights start with so many times the usual variance."""
    return lambda inputs, outputs: WHVILinear(inputs, outputs, weight_variance=2.0 * factor / inputs)


def unit_factors(inputs: int, outputs: int) -> nn.Module:
    """Low-rank layers whose factors have a standard normal prior."""
    rank = low_rank(inputs, outputs).rank
    return GaussianFactorsLinear(inputs, outputs, rank, prior_variance=rank)


_FIFTH, _HALF, _MOST = "KL warm-up over a fifth", "KL warm-up over half", "KL warm-up over nine tenths"
_NARROW = "q(g) starts 10 times narrower"
VARIANTS = {
    "no KL warm-up": Variant(),
    "rate 1e-3, the paper's decay": Variant(rate=1e-3, cosine=False),
    "rate 5e-3, the paper's decay": Variant(rate=5e-3, cosine=False),
    "rate 1e-2, the paper's decay": Variant(cosine=False),
    "rate 5e-3": Variant(rate=5e-3),
    "rate 2e-2": Variant(rate=2e-2),
    "KL warm-up over a fifth of the steps": Variant(warm_up=0.2),
    "KL warm-up over half the steps": Variant(warm_up=0.5),
    "KL warm-up over nine tenths of the steps": Variant(warm_up=0.9),
    f"{_FIFTH}, q(g) starts 10 times narrower": Variant(warm_up=0.2, narrower=10.0),
    f"{_FIFTH}, prior of the last layer N(0, 1 / inputs)": Variant(warm_up=0.2, last=mean_field),
    "own g for each block": Variant(layer=whvi(share_g=False)),
    "inferred scales": Variant(layer=whvi(scales="diagonal")),
    "inferred scales, KL warm-up over a fifth": Variant(warm_up=0.2, layer=whvi(scales="diagonal")),
    "own g for each block, inferred scales": Variant(layer=whvi(share_g=False, scales="diagonal")),
    "low-rank q(g)": Variant(layer=whvi(posterior="low_rank:8")),
    _NARROW: Variant(narrower=10.0),
    "weights start at half the variance": Variant(layer=scaled(0.5)),
    "weights start at twice the variance": Variant(layer=scaled(2.0)),
    **{f"T = {terms}": Variant(layer=whvi(terms=terms)) for terms in (2, 4, 8)},
    **{f"T = {terms}, {_FIFTH}": Variant(warm_up=0.2, layer=whvi(terms=terms)) for terms in (2, 4, 8)},
    "T = 4, KL warm-up over half the steps": Variant(warm_up=0.5, layer=whvi(terms=4)),
    f"T = 4, {_FIFTH}, rate 5e-3": Variant(rate=5e-3, warm_up=0.2, layer=whvi(terms=4)),
    f"T = 4, {_FIFTH}, rate 2e-2": Variant(rate=2e-2, warm_up=0.2, layer=whvi(terms=4)),
    f"T = 4, {_FIFTH}, {_NARROW}": Variant(warm_up=0.2, narrower=10.0, layer=whvi(terms=4)),
    f"T = 4, {_FIFTH}, {_NARROW}, rate 2e-2": Variant(rate=2e-2, warm_up=0.2, narrower=10.0, layer=whvi(terms=4)),
    f"T = 4, {_FIFTH}, {_NARROW}, rate 2e-2, inferred scales": Variant(
        rate=2e-2, warm_up=0.2, narrower=10.0, layer=whvi(terms=4, scales="diagonal")
    ),
    f"T = 4, {_HALF}, {_NARROW}, rate 2e-2": Variant(2e-2, warm_up=0.5, narrower=10.0, layer=whvi(terms=4)),
    f"T = 8, {_HALF}, {_NARROW}, rate 2e-2": Variant(2e-2, warm_up=0.5, narrower=10.0, layer=whvi(terms=8)),
    f"T = 4, {_MOST}, {_NARROW}, rate 1e-2": Variant(1e-2, warm_up=0.9, narrower=10.0, layer=whvi(terms=4)),
    f"T = 4, {_MOST}, {_NARROW}, rate 2e-2": Variant(2e-2, warm_up=0.9, narrower=10.0, layer=whvi(terms=4)),
    f"T = 4, {_MOST}, {_NARROW}, rate 2e-2, own g for each block": Variant(
        2e-2, warm_up=0.9, narrower=10.0, layer=whvi(terms=4, share_g=False)
    ),
    f"T = 4, {_MOST}, {_NARROW}, rate 2e-2, prior of the last layer N(0, 1 / inputs)": Variant(
        2e-2, warm_up=0.9, narrower=10.0, layer=whvi(terms=4), last=mean_field
    ),
    f"T = 4, {_FIFTH}, own g for each block": Variant(warm_up=0.2, layer=whvi(terms=4, share_g=False)),
    f"T = 4, {_FIFTH}, prior of the last layer N(0, 1 / inputs)": Variant(
        warm_up=0.2, layer=whvi(terms=4), last=mean_field
    ),
    f"T = 4, {_FIFTH}, KL times 0.3": Variant(warm_up=0.2, kl_weight=0.3, layer=whvi(terms=4)),
    f"T = 4, {_FIFTH}, KL times 0.1": Variant(warm_up=0.2, kl_weight=0.1, layer=whvi(terms=4)),
    "low rank": Variant(layer=low_rank, last=mean_field),
    f"low rank, {_FIFTH}": Variant(warm_up=0.2, layer=low_rank, last=mean_field),
    f"low rank, {_FIFTH}, factors start 10 times narrower": Variant(
        warm_up=0.2, narrower=10.0, layer=low_rank, last=mean_field
    ),
    f"low rank, {_FIFTH}, factors N(0, 1)": Variant(warm_up=0.2, layer=unit_factors, last=mean_field),
    "MFG, rate 1e-3": Variant(rate=1e-3, layer=MeanFieldLinear),
    "MFG": Variant(layer=MeanFieldLinear),
    "MFG, prior N(0, 1 / inputs), rate 1e-3": Variant(rate=1e-3, layer=mean_field, last=mean_field),
    "MFG, prior N(0, 1 / inputs)": Variant(layer=mean_field, last=mean_field),
    "MFG, prior N(0, 1 / inputs), KL warm-up over a fifth": Variant(warm_up=0.2, layer=mean_field, last=mean_field),
    "MCD, rate 1e-3": Variant(rate=1e-3, layer=dropout, last=dropout),
    "MCD": Variant(layer=dropout, last=dropout),
}


def network(variant: Variant, setup: Setup, inputs: int, outputs: int) -> nn.Module:
    """The network of a variant."""
    sizes = (inputs, *[setup.width] * setup.depth)
    parts = [part for i, o in pairwise(sizes) for part in (variant.layer(i, o), nn.ReLU())]
    model = nn.Sequential(*parts, variant.last(setup.width, outputs))
    if variant.narrower != 1.0:
        narrow(model, variant.narrower)
    return model


def kept_apart(parts: Split, task: str) -> Standardised:
    """The training rows of a split: nine tenths to train, one to look at."""
    x, y = parts.train
    count = int(0.9 * len(x))
    return Standardised(Split((x[:count], y[:count]), (x[count:], y[count:])), task)


def measure(name: str, setup: Setup, variant: Variant) -> dict[str, float]:
    """Metrics on the rows held out, and the bound, averaged over splits."""
    data = load(name)
    settings = configuration("whvi", str(data.task))
    parts = [kept_apart(split(data, index, settings["scaling"]), data.task) for index in range(setup.splits)]
    models, likelihoods = [], []
    for index in range(setup.splits):
        torch.manual_seed(index)
        models.append(network(variant, setup, data.x.shape[1], outputs_of(data)))
        likelihoods.append(make_likelihood(data, settings))
    weight = LinearWarmup(round(variant.warm_up * setup.steps)) if variant.warm_up else Constant()
    algorithm = SVI(
        variant.rate,
        schedule=CosineDecay(setup.steps) if variant.cosine else PowerDecay(),
        kl_weight=Scaled(weight, variant.kl_weight),
    )
    start = time.process_time()
    rows = [part.train for part in parts]
    result = fit_replicas(models, likelihoods, rows, steps=setup.steps, algorithm=algorithm, compile=can_compile())
    looks = [evaluate(*three, samples=SAMPLES, seed=0) for three in zip(models, likelihoods, parts, strict=True)]
    found = {metric: fmean(look[metric] for look in looks) for metric in looks[0]}
    found["elbo"] = fmean(final_elbo(result, r) - len(part.train[0]) * part.log_volume for r, part in enumerate(parts))
    found["cpu_seconds"] = time.process_time() - start
    return {key: round(value, 4) for key, value in found.items()}


def show(record: dict[str, dict[str, Any]]) -> str:
    """The record as a table in Markdown."""
    lines = ["| Data | Variant | bound | error | MNLL |", "| --- | --- | --- | --- | --- |"]
    for place, rows in record.items():
        for variant in (name for name in VARIANTS if name in rows):
            row = rows[variant]
            error = row.get("rmse", row.get("error"))
            lines.append(f"| {place} | {variant} | {row['elbo']:,.0f} | {error:.3f} | {row['mnll']:.3f} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing and keep the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", help=f"default: {', '.join(DATASETS)}")
    parser.add_argument("--shape", default="2x128", help="hidden layers and their units; default 2x128")
    parser.add_argument("--complete", action="store_true", help="steps and splits of the paper's protocol")
    parser.add_argument("--only", action="append", choices=VARIANTS, metavar="VARIANT", help="may be repeated")
    parser.add_argument("--table", action="store_true", help="only print the table of the record")
    options = parser.parse_args()
    torch.set_num_threads(1)
    setup = Setup(*map(int, options.shape.split("x")))
    if options.complete:
        setup = replace(setup, steps=profile("paper")["steps"], splits=profile("paper")["splits"])
    names = {setup.place(name): name for name in options.datasets or DATASETS}
    if not options.table:
        variants = options.only or VARIANTS
        fill(RECORD, list(names), variants, lambda place, variant: measure(names[place], setup, VARIANTS[variant]))
    print(show(stored(RECORD)))


if __name__ == "__main__":
    main()
