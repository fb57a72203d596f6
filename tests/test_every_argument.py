"""Every public function, with every kind of bad value for each of its arguments: an error in our words, or a meaning.

The walk is made from ``__all__`` of every public package and from the annotations, so a new function is walked, too: it
needs good values for its arguments (``GOOD``), by which it is seen that a bad value is refused for what it is.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

import whvi
from whvi import inference, ops, posterior, predictive, structure
from whvi.annotations import kind_of
from whvi.errors import WhviError
from whvi.likelihoods import Bernoulli, Categorical, Gaussian
from whvi.nn import MCDropout, WHVILinear

PACKAGES = (
    "whvi", "whvi.ops", "whvi.structure", "whvi.posterior", "whvi.nn", "whvi.likelihoods", "whvi.models",
    "whvi.inference", "whvi.predictive", "whvi.ensemble", "whvi.convert", "whvi.adapters", "whvi.acquire",
    "whvi.sklearn",
)  # fmt: skip

BAD: dict[str, Any] = {
    "None": None,
    "a text": "no such word",
    "an empty text": "",
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a fraction": 0.5,
    "zero": 0,
    "minus one": -1,
    "minus a half": -0.5,
    "huge": 10**400,
    "True": True,
    "an empty list": [],
    "a list": ["a", 1],
    "a mapping": {"a": 1},
    "an object": object(),
    "a class": int,
    "an empty tensor": torch.zeros(0),
    "a scalar tensor": torch.tensor(1.0),
    "a tensor of another shape": torch.ones(2, 5, 7),
    "a complex tensor": torch.ones(4, 4, dtype=torch.complex64),
    "a tensor of whole numbers": torch.ones(4, 4, dtype=torch.int64),
}

ROWS = 4


def network(outputs: int = 1) -> nn.Module:
    return nn.Sequential(WHVILinear(4, 4), nn.ReLU(), WHVILinear(4, outputs))


def base() -> nn.Module:
    layer = nn.Linear(16, 16)
    nn.init.ones_(layer.weight)
    nn.init.ones_(layer.bias)
    return nn.Sequential(layer)


def adapted() -> nn.Module:
    model = base()
    whvi.adapt(model, rule=nn.Linear)
    return model


def saved(what: str) -> str:
    """A folder with an adapter or a model in it."""
    if not Path(what).exists():
        if what == "adapter":
            whvi.save_adapter(adapted(), what)
        else:
            whvi.save_model(whvi.bayesianize(base()).model, what)
    return what


def prediction() -> predictive.Prediction:
    return whvi.predict(network(), torch.ones(ROWS, 4), 2, likelihood=Gaussian(), seed=0)


NUMBERS = count()
X, Y = torch.ones(ROWS, 4), torch.zeros(ROWS, 1)
GOOD: dict[str, Callable[[], Any]] = {
    "model": network,
    "models": lambda: [network(), network()],
    "likelihood": Gaussian,
    "likelihoods": lambda: [Gaussian(), Gaussian()],
    "data": lambda: (X, Y),
    "f": lambda: Y.clone(),
    **dict.fromkeys(("x", "pool", "query", "key", "value", "g"), lambda: X.clone()),
    "y": lambda: Y.clone(),
    **dict.fromkeys(("steps", "members", "count", "draws_of", "size", "batch_size", "n_data"), lambda: 4),
    **dict.fromkeys(("in_features", "out_features", "features", "in_channels", "out_channels", "period"), lambda: 4),
    "kernel_size": lambda: 1,
    "n_data": lambda: ROWS,
    "mean": lambda: torch.zeros(4),
    "prior": posterior.GaussianPrior,
    "std": lambda: torch.ones(4),
    "z": lambda: torch.zeros(4),
    "event_shape": lambda: (4,),
    "shape": lambda: (4,),
    "seed": lambda: 1,
    "seeds": lambda: torch.zeros(1, dtype=torch.int64),
    "generator": lambda: None,
    "s1": lambda: torch.ones(4),
    "s2": lambda: torch.ones(4),
    "log_std": lambda: -2.0,
    "offset": lambda: 0,
    "word": lambda: "SHGHS",
    "layout": lambda: "stack",
    "structure": lambda: "SHGHS",
    "make_model": lambda: network,
    "output": lambda: lambda found: found,
    "function": lambda: lambda moment: None,
    "schedule": lambda: inference.Constant(),
    "step": lambda: 1,
    "weight_variance": lambda: 1.0,
    "factor": lambda: 1.0,
    "spec": lambda: "diagonal",
    "classes": lambda: 3,
    "draw": lambda: None,
    "key_": lambda: 1,
    "optimizer": lambda: torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1),
    "layer": lambda: nn.Linear(4, 4),
    "flat": lambda: posterior.DiagonalGaussian(torch.zeros(4)),
    "base": lambda: posterior.DiagonalGaussian(torch.zeros(4)),
    "pairs": lambda: network()[0].kl_pairs(),
    "functions": lambda: prediction()._functions,
    "scores": lambda: torch.arange(4.0),
    "params": lambda: {"posterior": "diagonal"},
    "probabilities": lambda: torch.full((ROWS, 2), 0.5),
    "labels": lambda: torch.zeros(ROWS, dtype=torch.int64),
    "folder": lambda: f"folder-{next(NUMBERS)}",
    "plan": lambda: structure.make_plan("stack", 4, 4),
    "index": lambda: 0,
    "states": lambda: {"weight": torch.ones(2, 1, 4), "bias": torch.ones(2, 1)},
    **dict.fromkeys(("scores_in", "scores_out", "uncertainty", "loss", "log_prob"), lambda: torch.ones(ROWS)),
    **dict.fromkeys(("low", "high"), lambda: Y.clone()),
    "cdf_values": lambda: torch.full((ROWS,), 0.5),
    "levels": lambda: torch.tensor([0.5]),
    "draws": lambda: torch.randn(2, 8),
    "samples": lambda: torch.zeros(3, ROWS),
    "gain": lambda: lambda: torch.ones(4),
    "q": lambda: 0.5,
}
"""By the name of the argument."""

WORDS = {"folder", "path", "name", "stopped", "train_base", "skip"}
"""Any text has a meaning: of a folder, a name, or a pattern of names that may fit none."""
NEGATIVE = {"seed", "key", "scale", "log_std", "draw", "ignore_index", "size", "target", "last_epoch", "index"}
"""Numbers that may be negative: seeds, factors, logarithms, labels, places from the end, sizes that are asked about."""
ZERO = {
    "offset", "kl_weight", "step", "p", "padding", "output_padding", "positions", "frozen_steps", "schedule", "burn_in",
    "gradient_noise", "value", "margin", "start", "gamma", "power", "factor", "temperature",
}  # fmt: skip
"""Numbers that may be zero."""

MEANT = {"WHVILinear(bias=None)": "no bias"}
"""Other meanings of values that an annotation does not name."""

SPECIAL: dict[str, dict[str, Callable[[], Any]]] = {
    "adapt": {"model": base},
    "bayesianize": {"model": base},
    "dnn_to_bnn": {"model": base},
    "merge": {"model": adapted, "draw": lambda: "mean"},
    "unload": {"model": adapted},
    "use": {"model": adapted, "name": lambda: "default"},
    "save_adapter": {"model": adapted},
    "to_dense": {"draw": lambda: "mean"},
    "chain": {"x": lambda: X.clone()},
    "noisy_chain": {"mean": lambda: torch.zeros(4), "log_std": lambda: torch.zeros(4), "x": lambda: X.clone()},
    "noisy_bias": {"mean": lambda: torch.zeros(4), "log_std": lambda: torch.zeros(4), "y": lambda: X.clone()},
    "seeds_from": {"key": lambda: 1, "shape": lambda: (2,)},
    "fit_replicas": {"data": lambda: [(X, Y), (X, Y)], "seeds": lambda: [0, 1]},
    "deep_ensemble": {"seeds": lambda: [0, 1], "models": lambda: [nn.Linear(4, 1), nn.Linear(4, 1)]},
    "load_adapter": {"model": base, "folder": lambda: saved("adapter")},
    "load_model": {"model": base, "folder": lambda: saved("model")},
    "save_model": {"model": lambda: whvi.bayesianize(base()).model},
    "member_seeds": {"seed": lambda: 0},
    "posterior_as_prior": {"likelihood": Gaussian},
    "register_moments": {"kind": lambda: type("Own", (nn.Module,), {})},
    "fit": {"seed": lambda: 0, "n_data": lambda: None},
    "crps_samples": {"y": lambda: torch.zeros(ROWS)},
    "crps_gaussian": {"mean": lambda: Y.clone(), "std": lambda: torch.ones(ROWS, 1)},
    "rmse": {"mean": lambda: Y.clone()},
    "sharpness": {"std": lambda: torch.ones(ROWS)},
    "WithOutput": {"output": lambda: lambda found: found},
    **{key: {"likelihood": Gaussian} for key in ("predictive_entropy", "bald", "variance_reduction", "choose")},
    **{
        f"Categorical.{name}": {"f": lambda: torch.zeros(ROWS, 3)} for name in ("mean", "variance", "entropy", "sample")
    },
    "KernelNoise": {"log_std": lambda: torch.zeros(4), "seed": ops.draw_seed, "lead": lambda: ()},
    "interval_score": {"level": lambda: 0.5},
    "WHVIRegressor.predict_interval": {"level": lambda: 0.5},
    "Categorical.log_prob": {"f": lambda: torch.zeros(ROWS, 3), "y": lambda: torch.zeros(ROWS, dtype=torch.int64)},
    "Categorical.targets": {"y": lambda: torch.zeros(ROWS, dtype=torch.int64)},
    "Ensemble.functions": {"seeds": lambda: None, "draws": lambda: "batch"},
    "Ensemble.from_states": {"model": lambda: nn.Linear(4, 1), "likelihood": lambda: None},
    "Ensemble.likelihood": {"members": lambda: [0]},
    "Ensemble": {"models": lambda: [nn.Linear(4, 1), nn.Linear(4, 1)]},
    "Posterior.rsample": {"shape": lambda: (2,), "seed": ops.draw_seed},
}
"""Of one function, where its argument is another thing than elsewhere by that name."""

LIKELIHOOD = ("log_prob", "mean", "variance", "entropy", "sample", "targets", "cdf")
POSTERIOR = ("rsample", "kl")
METHODS: dict[Callable[[], Any], tuple[str, ...]] = {
    Gaussian: LIKELIHOOD,
    Bernoulli: LIKELIHOOD[:-1],
    lambda: Categorical(3): LIKELIHOOD[:-1],
    lambda: posterior.DiagonalGaussian(torch.zeros(4)): POSTERIOR,
    lambda: posterior.PlanarFlow(posterior.FullGaussian(torch.zeros(4)), 2, kl_samples=2): POSTERIOR,
    lambda: posterior.LowRankGaussian(torch.zeros(4), rank=2): POSTERIOR,
    lambda: WHVILinear(4, 4): ("forward", "draw"),
    lambda: MCDropout(nn.Linear(4, 4)): ("forward", "draw"),
    prediction: ("cdf", "expected_log_prob", "interval", "log_prob", "mnll", "quantile", "rmse", "sample_y", "samples"),
    lambda: predictive.Ensemble([nn.Linear(4, 1)], Gaussian()): ("member", "pair", "likelihood"),
    lambda: predictive.Ensemble: ("from_states",),
}
"""Methods that are for a user, of an object or a class; others are for those who write a layer or an algorithm."""

ABSTRACT = {
    "BayesianLayer", "Discrete", "Likelihood", "Posterior", "Prior", "GaussianPosterior", "Algorithm", "Callback",
    "Run", "AdaptedAttention",
}  # fmt: skip
"""To be subclassed, or made by the library alone."""
RESULTS = {
    "Draw", "Converted", "Report", "Row", "Adapted", "Elbo", "Fit", "Members", "Moment", "Terms", "KernelInfo", "Plan",
    "Structure", "Permutation", "KernelNoise", "RandomOperator", "StructuredMatrix", "Prediction", "Reliability",
    "SelectiveCurve", "SavedState", "BayesianAttention", "AnalyticPrediction", "JointPosterior", "WhviError",
}  # fmt: skip
"""What functions return, or layers are made of: records, which a user reads and does not make."""
LATER = {"WHVIRegressor", "WHVIClassifier", "WHVIGRU", "WHVILSTM"}
"""Estimators take anything when they are made, as scikit-learn wants it, and check it in ``fit``; recurrent networks
take what torch's class does, and pass it on."""


class Call(NamedTuple):
    name: str
    function: Callable[..., Any]
    good: dict[str, Callable[[], Any]]
    kinds: dict[str, Any]


def calls() -> Iterator[Call]:
    """All that is public, once."""
    seen: set[int] = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", None) or [n for n in vars(module) if n in acquire_names]:
            target = getattr(module, name)
            usable = inspect.isfunction(target) or inspect.isclass(target)
            if usable and id(target) not in seen and name not in ABSTRACT | RESULTS | LATER:
                seen.add(id(target))
                yield made(name, target)
    for make, names in METHODS.items():
        for method in names:
            owner = make()
            kind = owner if inspect.isclass(owner) else type(owner)
            yield made(
                f"{kind.__name__}.{method}",
                lambda m=make, n=method, **kw: getattr(m(), n)(**kw),
                getattr(owner, method),
            )


acquire_names = ("predictive_entropy", "bald", "variance_reduction", "choose", "highest")


def made(name: str, function: Callable[..., Any], signed: Callable[..., Any] | None = None) -> Call:
    found = inspect.signature(signed or function).parameters.values()
    own = [p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    special = SPECIAL.get(name, {})
    good = {p.name: special.get(p.name, GOOD.get(p.name)) for p in own if p.default is p.empty or p.name in special}
    scope = {**vars(importlib.import_module((signed or function).__module__)), "Any": Any}
    kinds = {p.name: eval(p.annotation, scope) if isinstance(p.annotation, str) else p.annotation for p in own}
    return Call(name, function, good, kinds)  # type: ignore[arg-type]


def run(call: Call, **change: Any) -> Any:
    found = call.function(**{key: value() for key, value in call.good.items() if key not in change}, **change)
    if isinstance(found, AbstractContextManager):
        with found:
            pass
    return found


def outcomes(call: Call) -> Iterator[str]:
    """What is wrong with the function, in words."""
    missing = [key for key, value in call.good.items() if value is None]
    assert not missing, f"{call.name} needs good values for {missing}: add them to GOOD or SPECIAL"
    run(call)
    for name, annotation in call.kinds.items():
        kind = kind_of(annotation)
        for what, value in BAD.items():
            try:
                if name == "compile" and value is True:  # it takes some ten seconds, and has tests of its own
                    continue
                run(call, **{name: value})
            except WhviError:
                continue
            except Exception as error:
                if callable(value) and kind.typed(value):  # what a function of the caller raises comes out as it is
                    continue
                yield f"{call.name}({name}={what}): {type(error).__name__}: {str(error).splitlines()[:1]}"
                continue
            if f"{call.name}({name}={what})" in MEANT:
                continue
            if not (kind.typed(value) and kind.holds(value)):
                yield f"{call.name}({name}={what}) was taken"
            elif isinstance(value, str) and name not in WORDS:
                yield f"{call.name}({name}={what}) was taken for a word"
            elif isinstance(value, int | float) and value <= 0 and name not in NEGATIVE | (set() if value else ZERO):
                yield f"{call.name}({name}={what}) was taken for a size"


CALLS = {call.name: call for call in calls()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_bad_values_are_refused_in_our_words(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(outcomes(CALLS[name])) == []


def test_the_walk_is_a_long_one() -> None:
    assert len(CALLS) > 110
    assert sum(len(call.kinds) for call in CALLS.values()) * len(BAD) > 6_000
    assert {"fit", "fit_replicas", "PlanarFlow", "LowRankGaussian", "Bernoulli.log_prob"} <= CALLS.keys()
