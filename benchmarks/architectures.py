"""What works on models people already have: ``python benchmarks/architectures.py [--table]``.

Each of the small models of ``zoo.py``, with random weights in float64, is adapted and made Bayesian, fitted for a few
steps, asked for predictions, saved, loaded, and generates where it can. A law is checked each time; an error or a
broken law becomes the cell of the table. Writes ``results/bench/architectures.json`` and prints the table of
``docs/architectures.md``.
"""

import copy
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import whvi
from whvi import rows as of
from whvi.inference import SVI, Progress
from whvi.nn.model import bayesian_layers
from whvi.nn.outputs import tensor_of
from zoo import CASES, ROWS, Case

RECORD = Path(__file__).parent.parent / "results/bench/architectures.json"
STEPS, SAMPLES, NEW_WORDS = 3, 5, 5


class Broken(Exception):
    """A law that does not hold."""


class Made(NamedTuple):
    """A model with a posterior."""

    dense: nn.Module
    model: nn.Module
    x: Any
    adapted: bool
    layers: int
    trained: int


def double(found: Any) -> Any:
    """Floating point in float64."""
    return of.mapped(lambda tensor: tensor.double() if tensor.is_floating_point() else tensor, found)


@torch.no_grad()
def answer(model: nn.Module, x: Any) -> Tensor:
    """What a likelihood would take, before ``output=``."""
    return tensor_of(of.call(model, x))


def demand(holds: bool, law: str) -> None:
    """Raise the law that is broken."""
    if not holds:
        raise Broken(law)


def close(one: Tensor, other: Tensor, law: str) -> None:
    """Some inner parts of transformers compute in float32 whatever the model's precision is."""
    demand(torch.allclose(one, other, rtol=1e-4, atol=1e-4), law)


def made(case: Case, adapted: bool) -> Made:
    """The model of a case with a posterior, from the same numbers each time."""
    torch.manual_seed(0)
    dense, x = case.make().double().eval(), double(case.inputs())
    # torch multiplies by a frozen weight on another path, with other rounding; the base of an adapter is frozen.
    frozen = copy.deepcopy(dense).requires_grad_(False)
    if adapted:
        model, report = whvi.adapt(copy.deepcopy(dense), skip=case.skip)
        return Made(frozen, model, x, adapted, len(report.adapted), report.trained)
    model, _ = whvi.bayesianize(dense, skip=case.skip)
    return Made(dense, model, x, adapted, len(bayesian_layers(model)), sum(p.numel() for p in model.parameters()))


def plain(given: Made, draws: Any) -> nn.Module:
    """The dense model of one draw."""
    return whvi.adapters.merge(given.model, draws) if given.adapted else whvi.to_dense(given.model, draws)


def function(case: Case, given: Made) -> None:
    """An adapter's mean function is the base, bit for bit; under one draw a model is the dense one of that draw."""
    if given.adapted:
        with whvi.mean_mode(given.model):
            demand(torch.equal(answer(given.model, given.x), answer(given.dense, given.x)), "the mean is not the base")
    with whvi.sampling(given.model) as draws:
        y = answer(given.model, given.x)
    demand(bool(y.isfinite().all()), "not finite")
    close(answer(plain(given, draws).eval(), given.x), y, "not the dense model of its draw")


def fit(case: Case, given: Made) -> None:
    """Every Bayesian layer learns, and nothing that is frozen does."""
    before = {name: parameter.detach().clone() for name, parameter in given.model.named_parameters()}
    whvi.fit(
        given.model,
        case.likelihood().double(),
        (given.x, double(case.target())),
        steps=STEPS,
        algorithm=SVI(1e-2),
        batch_size=ROWS // 2,
        seed=0,
        output=case.output,
        callbacks=[Progress(False)],
    )
    for name, parameter in given.model.named_parameters():
        learned = not torch.equal(parameter, before[name])
        demand(learned <= parameter.requires_grad, f"{name} is frozen, but learned")
    for layer in bayesian_layers(given.model):
        demand(
            any(p.grad is not None and bool(p.grad.any()) for p in layer.parameters()), "a layer that does not learn"
        )


def predict(case: Case, given: Made) -> None:
    """The functions are the same whether rows come together or one by one, and they differ among each other."""
    options: dict[str, Any] = {"likelihood": case.likelihood().double(), "output": case.output, "seed": 1}
    together, single = (whvi.predict(given.model, given.x, SAMPLES, batch_rows=rows, **options) for rows in (None, 1))
    close(together.mean, single.mean, "rows depend on each other")
    close(together.samples(), single.samples(), "functions depend on rows")
    demand(bool(together.epistemic.sum() > 0), "functions do not differ")


def save(case: Case, given: Made) -> None:
    """What was loaded into the dense model predicts the same bits."""
    with TemporaryDirectory() as folder:
        if given.adapted:
            whvi.save_adapter(given.model, folder)
            loaded = whvi.load_adapter(made(case, True).dense, folder)
        else:
            whvi.save_model(given.model, Path(folder) / "model")
            torch.manual_seed(0)
            loaded = whvi.load_model(case.make().double().eval(), Path(folder) / "model")
    ours, theirs = (whvi.predict(model, given.x, 2, seed=2, output=case.output) for model in (given.model, loaded))
    demand(torch.equal(ours.mean, theirs.mean), "another function came back")


def generate(case: Case, given: Made) -> None:
    """Under one draw a text is that of the dense model of this draw, with a cache and without."""
    assert case.prompt is not None
    prompt = double(case.prompt())
    options: dict[str, Any] = {"max_new_tokens": NEW_WORDS, "min_new_tokens": NEW_WORDS, "do_sample": False}
    with whvi.sampling(given.model) as draws:
        texts = [given.model.generate(**prompt, **options, use_cache=cache) for cache in (True, False)]
    texts.append(plain(given, draws).eval().generate(**prompt, **options))
    demand(all(torch.equal(texts[0], text) for text in texts[1:]), "the text is another one")


CHECKS: dict[str, Callable[[Case, Made], None]] = {
    "function": function,
    "fit": fit,
    "predict": predict,
    "save": save,
    "generate": generate,
}


def laws(case: Case) -> list[str]:
    """What is asked of an architecture."""
    return [law for law in CHECKS if law != "generate" or case.prompt is not None]


def put_through(case: Case) -> dict[str, Any]:
    """One architecture, adapted and made Bayesian."""
    found: dict[str, Any] = {"package": case.package}
    for way in ("adapt", "bayesianize"):
        start = process_time()
        try:
            given = made(case, way == "adapt")
        except Exception as error:  # every error is a result here
            found[way] = {"made": said(error)}
            continue
        found["parameters"] = sum(p.numel() for p in given.dense.parameters())
        found[way] = {"made": "yes", "layers": given.layers, "trained": given.trained}
        for law in laws(case):
            try:
                CHECKS[law](case, given)
                found[way][law] = "yes"
            except Exception as error:
                found[way][law] = said(error)
        found[way]["seconds"] = round(process_time() - start, 2)
    return found


def said(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def measure(rounds: int) -> dict[str, Any]:
    """All architectures; there is nothing to repeat."""
    torch.set_num_threads(1)
    packages = sorted({case.package for case in CASES.values()})
    return {
        "versions": {package: version(package) for package in packages},
        "architectures": {name: put_through(case) for name, case in CASES.items()},
    }


def table(record: dict[str, Any]) -> str:
    """A row for each architecture; a law holds for both ways, or the cell says for which not."""
    head = ["architecture", "numbers", "`adapt`: modules, numbers", "`bayesianize`: layers, numbers", *CHECKS]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for name, found in record["architectures"].items():
        ways = [found["adapt"], found["bayesianize"]]
        sizes = [f"{way['layers']}, {way['trained']:,}" if way["made"] == "yes" else way["made"] for way in ways]
        cells = [cell({kind: found[kind].get(law) for kind in ("adapt", "bayesianize")}) for law in CHECKS]
        lines.append(f"| {' | '.join([name, format(found.get('parameters', 0), ','), *sizes, *cells])} |")
    return "\n".join(lines)


def cell(answers: dict[str, str | None]) -> str:
    """What both ways say of a law."""
    bad = [f"{way}: {text}" for way, text in answers.items() if text not in (None, "yes")]
    return "; ".join(bad) or ("yes" if "yes" in answers.values() else "–")


if __name__ == "__main__":
    from whvi_paper.bench.record import main

    main(__doc__, RECORD, measure, table)
