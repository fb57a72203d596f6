"""From a trained model to the same function with a posterior around its weights."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from whvi.adapters.recipe import Recipe
from whvi.adapters.record import ADAPTED, add, check_free
from whvi.adapters.report import Adapted, Report, Row
from whvi.adapters.targets import Target, targets
from whvi.annotations import checked
from whvi.convert.attention import BayesianAttention
from whvi.convert.bayesianize import auto_draws
from whvi.convert.layers import CONVOLUTIONS, count_parameters
from whvi.convert.matching import Rule, Selection, Words
from whvi.convert.rules import WITHOUT_TWIN
from whvi.errors import ArgumentError, InputTypeError
from whvi.nn.base import BayesianLayer
from whvi.nn.recurrent import Recurrent
from whvi.nn.together import named
from whvi.posterior import Prior
from whvi.posterior.spec import Spec


@checked
def adapt(
    model: nn.Module,
    *,
    rule: Rule = None,
    skip: Words = (),
    terms: int = 1,
    posterior: Spec = "diagonal",
    spread: float = 0.3,
    train_base: bool | str | Iterable[str] = False,
    name: str = "default",
    prior_variance: float | Prior = 1.0,
    draws: str = "auto",
    **options: Any,
) -> Adapted:
    """Add a Bayesian delta to each matching module of a trained model: W = W0 + sum over t of A_t diag(g_t) B_t.

    The model is changed in place, and an error leaves it unchanged. Modules keep their places, names, types,
    ties and hooks, and y = module(x) + delta(x). Initially E[g] = 0, so the mean function is that of the model; the
    prior is centred on W0, and ``whvi.kl`` is the KL of the deltas alone.

    Args:
        model: trained, in any floating-point type or quantised; a quantised weight is never read.
        rule: which modules. None: nn.Linear, nn.Conv1d and nn.Conv2d and their transposes, nn.MultiheadAttention,
            nn.LSTM, nn.GRU, transformers' Conv1D and quantised linear layers, if the delta has fewer parameters than
            the weight; or a type, a name or pattern, or several, or a function of (name, module), as for
            ``bayesianize``.
        skip: names, patterns and types to exclude.
        terms: T.
        posterior: of g, a Gaussian or "point".
        spread: standard deviation of the entries of a delta, initially and under its prior, relative to the root
            mean square of the weight.
        train_base: False freezes the parameters of the model, True leaves them trainable; names and patterns, such
            as "classifier", select those that are trained jointly. A base that learns under the noise of its delta,
            with a wide ``spread``, gives better uncertainty than a frozen one.
        name: of this adapter. A model may have several; the newest, or that of ``use``, is active.
        prior_variance, options: as for ``WHVILinear`` (``structure``, ``scales``, ``share_g``, ``layout``, ...).
        draws: "example", "batch" or "auto", as for ``bayesianize``; attention draws once for each call by default.

    Law: under a fixed draw the model has the weights ``W0 + delta.weight_at(draw)``; in ``whvi.mean_mode`` before
    training, it equals the model bit for bit.

    >>> import torch, whvi
    >>> model, x = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)), torch.randn(3, 64)
    >>> before = model(x)
    >>> model, report = adapt(model, terms=1)
    >>> print(report)
    name  kind    shape     weights  delta
    0     Linear  256 x 64   16,384    640
    2     Linear  10 x 256    2,560  1,024
    Linear layers draw once for each row (draws="example").
    2 modules adapted: 1,664 numbers beside 18,944 (8.8 %). Whole model: 19,210 numbers, 1,664 trained.
    >>> with whvi.mean_mode(model):
    ...     torch.equal(model(x), before)
    True
    """
    check_free(model, name)
    if draws not in ("auto", "example", "batch"):
        raise ArgumentError(f"draws must be 'auto', 'example' or 'batch', got {draws!r}")
    selection, found = Selection(rule, skip), list(candidates(model))
    selection.check_names(model)
    linear, conv = auto_draws(model) if draws == "auto" else (draws, draws)
    everywhere = {path: _draws(module, draws, linear, conv) for path, module in found}
    recipe = Recipe(posterior, spread, prior_variance, _trained(train_base), {"terms": terms, **options}, everywhere)
    _check_trained(model, recipe)
    notes = {path: obstacle(module) or _choice(path, module, selection, recipe) for path, module in found}
    if all(notes.values()):
        reasons = "; ".join(f"{path or 'the model'}: {note}" for path, note in [*notes.items()][:5])
        raise ArgumentError(f"nothing in this model can be adapted ({reasons or 'it has no linear layers'})")
    deltas = {path: _delta(recipe, path, module) for path, module in found if not notes[path]}
    rows = tuple(_row(path, module, deltas.get(path), notes[path]) for path, module in found)
    total = count_parameters(model)
    add(model, name, replace(recipe, draws={path: everywhere[path] for path in deltas}), deltas)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad and not is_lazy(p))
    return Adapted(model, Report(rows, total, trained, *_common_draws(recipe, dict(found), deltas)))


def candidates(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules that can have a delta, and others that one might look for in the report, each once."""
    inside: set[nn.Module] = set()
    for name, module in model.named_modules():
        if module in inside:
            continue
        if isinstance(module, BayesianLayer | BayesianAttention | Recurrent):
            inside |= set(module.modules())
        elif targets(module) or isinstance(module, (nn.Linear, *CONVOLUTIONS, *WITHOUT_TWIN)):
            inside |= set(module.modules())  # the output projection of attention is never called as a module
            yield name, module


def obstacle(module: nn.Module) -> str:
    """Why a module cannot have a delta, if it cannot."""
    if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():
        return "lazy, with no shape yet; run it once on data"
    weights = targets(module)
    if not weights:
        return f"{type(module).__name__} has no delta here"
    if isinstance(module, tuple(ADAPTED)) and type(module) not in {*ADAPTED, *ADAPTED.values()}:
        return f"{type(module).__name__} has a forward of its own, and no module for its projections"
    if any(target.weight is not None and target.weight.is_meta for target in weights.values()):
        return "its weight is on the meta device, without numbers; load the model's weights first"
    return ""


def _choice(path: str, module: nn.Module, selection: Selection, recipe: Recipe) -> str:
    """Why a module is left out, if it is."""
    note, given = selection.decide(path, module)
    if given is not None:
        raise InputTypeError(
            f"the rule of an adapter must return a bool or None, got {type(given).__name__} for {path!r}"
        )
    if note or not selection.by_size:
        return note
    before, after = (sum(map(size, targets(module).values())) for size in (_numbers, recipe.size))
    return f"its delta would have {after:,} numbers, its weight has {before:,}" if after >= before else ""


def _numbers(target: Target) -> int:
    return target.size


def _draws(module: nn.Module, wanted: str, linear: str, conv: str) -> str:
    """What the deltas of a module draw for."""
    if isinstance(module, tuple(ADAPTED)):
        return "batch" if wanted == "auto" else wanted
    return conv if isinstance(module, CONVOLUTIONS) else linear


def _trained(train_base: bool | str | Iterable[str]) -> bool | tuple[str, ...]:
    if isinstance(train_base, bool):
        return train_base
    names = (train_base,) if isinstance(train_base, str) else tuple(train_base)
    if not all(isinstance(name, str) for name in names):
        raise InputTypeError(f"train_base takes True, False, names or patterns, got {train_base!r}")
    return names


def _check_trained(model: nn.Module, recipe: Recipe) -> None:
    """Raise the error that says which name of ``train_base`` stands for nothing in the model, if any does."""
    for word in () if isinstance(recipe.train_base, bool) else recipe.train_base:
        if not any(named(name, word) for name, _ in model.named_parameters()):
            raise ArgumentError(
                f"train_base: no parameter of this model is called {word!r}; give names of parameters or modules, or "
                "patterns such as '*.classifier*' (see [n for n, _ in model.named_parameters()])"
            )


def _delta(recipe: Recipe, path: str, module: nn.Module) -> nn.Module:
    try:
        return recipe.delta(path, module)
    except ArgumentError as error:
        raise ArgumentError(f"{path or 'the model'}: {error}") from error


def _row(path: str, module: nn.Module, delta: nn.Module | None, note: str) -> Row:
    weights = targets(module).values()
    shapes = [target.shape for target in weights]
    if delta is not None and any(target.weight is None for target in weights):
        note = "its weight is not read; the delta has the size that suits a fresh layer"
    shape = shapes[0] if len(shapes) == 1 else ()
    count = 0 if delta is None else count_parameters(delta)
    return Row(path, type(module).__name__, shape, sum(map(_numbers, weights)), count, note)


def _common_draws(recipe: Recipe, modules: dict[str, nn.Module], deltas: dict[str, nn.Module]) -> tuple[str, str]:
    """What linear deltas and what those of convolutions draw for, where all do the same."""
    kinds: tuple[set[str], set[str]] = set(), set()
    for path in deltas:
        kinds[isinstance(modules[path], CONVOLUTIONS)].add(recipe.draws[path])
    linear, conv = ("".join(kind) if len(kind) == 1 else "" for kind in kinds)
    return linear, conv
