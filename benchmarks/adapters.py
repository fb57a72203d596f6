"""Ways from a trained network to a posterior: ``python benchmarks/adapters.py [method ...] [--table]``.

The network of ``letters.py``, trained from three seeds. The settings of a method are those with the best likelihood on
held-out rows for the first seed; the table shows test rows. Writes ``results/bench/adapters.json``, one entry after the
other; what is there is not computed again. Laplace and IVON run where laplace-torch and ivon-opt are installed.
``--table`` prints the record.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn
from torch.nn.functional import kl_div

import rivals
import whvi
from letters import BATCH, SEEN, Predict, dense, judged, task, train
from whvi.inference import SVI, OneCycle, Progress, fit_ensemble
from whvi.likelihoods import Categorical
from whvi_paper.bench.record import keep

RECORD = Path(__file__).parent.parent / "results/bench/adapters.json"
SEEDS, STEPS, SAMPLES, MEMBERS = (0, 1, 2), 1000, 32, 5
LIKELIHOOD = Categorical(SEEN)
Record = dict[str, dict[str, dict[str, dict[str, float]]]]
"""By method, settings and seed."""


@dataclass(frozen=True)
class Method:
    """A way to a posterior, and the settings that held-out rows choose from."""

    make: Callable[..., tuple[Predict, int]]
    """From a seed and settings to a predictive distribution, and how many numbers were trained or fitted."""
    settings: Mapping[str, dict[str, Any]] = field(default_factory=lambda: {"": {}})
    """Keywords, by what the record calls them."""


def given(seed: int, steps: int = 0) -> tuple[Predict, int]:
    """The network itself, or trained on."""
    model = deepcopy(dense(seed)[0])
    if steps:
        train(model, steps)
    return lambda x: model(x).softmax(-1), _numbers(model)


def adapter(seed: int, steps: int = STEPS, rate: float = 1e-2, **options: Any) -> tuple[Predict, int]:
    """One adapter."""
    torch.manual_seed(seed)
    model = whvi.adapt(deepcopy(dense(seed)[0]), **options).model
    return _fitted(model, seed, steps, rate)


def adapters(seed: int, steps: int = STEPS, rate: float = 1e-2, **options: Any) -> tuple[Predict, int]:
    """Several adapters on one base."""
    result = fit_ensemble(
        lambda: whvi.adapt(deepcopy(dense(seed)[0]), **options).model,
        LIKELIHOOD,
        tuple(task().train),
        members=MEMBERS,
        seed=seed,
        **_how(steps, rate),
    )
    numbers = MEMBERS * _numbers(result.posterior.member(0))
    return lambda x: result.predict(x, MEMBERS * 8, seed=1).mean, numbers


def converted(seed: int, steps: int, init: str = "prior", **how: Any) -> tuple[Predict, int]:
    """All layers except the first replaced, and trained."""
    torch.manual_seed(seed)
    model = whvi.bayesianize(dense(seed)[0], skip=("0",), init=init).model
    return _fitted(model, seed, steps, **{"rate": 5e-2, **how})


def distilled(seed: int, steps: int, rate: float = 5e-2) -> tuple[Predict, int]:
    """All layers except the first replaced, and matched to the probabilities of the network, without labels."""
    torch.manual_seed(seed)
    model, x = whvi.bayesianize(dense(seed)[0], skip=("0",), init="prior").model, task().train.x
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, OneCycle(steps))
    for _ in range(steps):
        rows = torch.randint(len(x), (BATCH,))
        with torch.no_grad():
            wanted = dense(seed)[0](x[rows]).log_softmax(-1)
        optimizer.zero_grad()
        kl_div(model(x[rows]).log_softmax(-1), wanted, log_target=True, reduction="batchmean").backward()
        optimizer.step()
        schedule.step()
    return _predictive(model), _numbers(model)


def _how(steps: int, rate: float, kl_weight: float = 1.0) -> dict[str, Any]:
    """Arguments of a fit."""
    algorithm = SVI(rate, schedule=OneCycle(steps), kl_weight=kl_weight)
    return {"steps": steps, "batch_size": BATCH, "algorithm": algorithm, "callbacks": [Progress(False)]}


def _fitted(model: nn.Module, seed: int, steps: int, rate: float, **how: float) -> tuple[Predict, int]:
    if steps:
        whvi.fit(model, LIKELIHOOD, tuple(task().train), seed=seed, **_how(steps, rate, **how))
    return _predictive(model), _numbers(model) if steps else 0


def _predictive(model: nn.Module) -> Predict:
    return lambda x: whvi.predict(model, x, samples=SAMPLES, likelihood=LIKELIHOOD, seed=1).mean


def _numbers(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _each(name: str, values: tuple[float, ...], **others: Any) -> dict[str, dict[str, Any]]:
    return {f"{name} {value}": {name: value, **others} for value in values}


def _jointly(*spreads_and_rates: tuple[float, float], **others: Any) -> dict[str, dict[str, Any]]:
    return {
        f"spread {spread}, rate {rate}": {"spread": spread, "rate": rate, "train_base": True, **others}
        for spread, rate in spreads_and_rates
    }


METHODS = {
    "dense": Method(given),
    "dense, trained on": Method(given, {"": {"steps": STEPS}}),
    "MC dropout switched on": Method(rivals.mc_dropout, _each("p", (0.02, 0.05, 0.1, 0.2))),
    "last-layer Laplace": Method(
        rivals.laplace, _each("precision", (10.0, 30.0, 100.0, 300.0, 1000.0), weights="last_layer")
    ),
    "Kronecker Laplace": Method(rivals.laplace, _each("precision", (300.0, 1000.0, 3000.0), weights="all")),
    "adapter, at its start": Method(adapter, _each("spread", (0.1, 0.2), steps=0)),
    "adapter": Method(adapter, _each("spread", (0.3, 1.0))),
    "adapter, T = 4": Method(adapter, _each("spread", (0.6,), terms=4)),
    "5 adapters on one base": Method(adapters, _each("spread", (0.3,))),
    "adapter, base trained jointly": Method(adapter, _jointly((0.3, 1e-3), (0.6, 3e-3))),
    "adapter, T = 4, base trained jointly": Method(adapter, _jointly((0.6, 3e-3), terms=4)),
    "5 adapters, base trained jointly": Method(adapters, _jointly((0.6, 3e-3))),
    "IVON, from the network": Method(rivals.ivon, _each("rate", (0.03, 0.1), steps=STEPS)),
    **{
        f"bayesianize, {init}, {steps:,} steps": Method(converted, {"": {"steps": steps, "init": init}})
        for steps in (200, 1000, 5000)
        for init in ("prior", "pretrained")
    },
    "bayesianize, prior, 200 steps without KL": Method(converted, {"": {"steps": 200, "kl_weight": 0.0}}),
    "bayesianize, distilled, 200 steps": Method(distilled, {"": {"steps": 200}}),
}


WAYS = (
    "dense",
    "adapter",
    "5 adapters on one base",
    "adapter, base trained jointly",
    "5 adapters, base trained jointly",
    *(f"bayesianize, prior, {steps:,} steps" for steps in (200, 1000, 5000)),
)
"""What a user chooses from."""


def measure(method: Method, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    """One entry."""
    dense(seed)
    start = time.process_time()
    predict, numbers = method.make(seed, **settings)
    seconds = time.process_time() - start
    return {**judged(predict), "numbers": numbers, "seconds": round(seconds, 2)}


def chosen(entries: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The settings that held-out rows like best, of those that were measured with the first seed."""
    first = str(SEEDS[0])
    return min((name for name in entries if first in entries[name]), key=lambda s: entries[s][first]["held_out_nll"])


def table(record: Record, names: Iterable[str] = METHODS) -> str:
    """Means over seeds of test rows, in Markdown."""
    columns = ("error", "nll", "ece", "auroc_unseen", "auroc_noise", "auroc_corrupted")
    lines = [
        "| method | settings | error | NLL | ECE | AUROC unseen | noise | corrupted | numbers | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in (name for name in names if record.get(name)):
        settings = chosen(record[name])
        runs = list(record[name][settings].values())
        mean = {key: fmean(run[key] for run in runs) for key in runs[0]}
        cells = " | ".join(f"{mean[key]:.3f}" for key in columns)
        few = "" if len(runs) == len(SEEDS) else f" ({len(runs)} of {len(SEEDS)} seeds)"
        lines.append(f"| {name}{few} | {settings} | {cells} | {mean['numbers']:,.0f} | {mean['seconds']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is missing: all settings with the first seed, the chosen ones with the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help="default: all")
    parser.add_argument("--seed", type=int, action="append", choices=SEEDS, help="default: all; may be repeated")
    parser.add_argument("--table", action="store_true", help="only print the table of the record")
    parser.add_argument("--ways", action="store_true", help="only print its rows that a user chooses from")
    options = parser.parse_args()
    torch.set_num_threads(1)
    record: Record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for seed in () if options.table or options.ways else options.seed or SEEDS:
        for name in options.methods or METHODS:
            method, entries = METHODS[name], record.setdefault(name, {})
            if package := rivals.missing(name):
                print(f"{name}: left out, as the package {package} is not installed")
                continue
            for settings in method.settings if seed == SEEDS[0] else [chosen(entries)]:
                if str(seed) not in entries.get(settings, {}):
                    found = measure(method, method.settings[settings], seed)
                    entries.setdefault(settings, {})[str(seed)] = found
                    keep(RECORD, record)
    print(table(record, WAYS if options.ways else METHODS))


if __name__ == "__main__":
    main()
