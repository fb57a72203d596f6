"""How networks are trained: one recipe for all datasets, and the settings of each method. ``docs/recipe.md`` says why.

A recipe is plain JSON, since it is part of what a record is named by. A profile is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp
from typing import Any

from whvi.errors import ArgumentError
from whvi.inference import SVI, CosineDecay, LinearWarmup, PowerDecay
from whvi.inference.schedules import Schedule
from whvi_paper.baselines import NoisyKFAC

Configuration = dict[str, Any]

PROFILES: dict[str, Configuration] = {
    "recipe": {"steps": 50_500, "samples": 64, "splits": 8},
    "paper": {"steps": 50_500, "samples": 64, "splits": 8},
    "quick": {"steps": 2_000, "samples": 32, "splits": 2},
    "smoke": {"steps": 20, "samples": 4, "splits": 2},
}
"""How long: our recipe and the paper's protocol in full, a few minutes for a newcomer, seconds for a test."""

_COMMON: Configuration = {
    "batch_size": 64,
    "noise_variance": round(exp(-4.0), 6),
    "frozen_steps": 500,
    "schedule": "cosine",
}
_OF_METHOD: dict[str, Configuration] = {
    "nng": {"learning_rate": 0.1, "adam_learning_rate": 1e-2, "damping": 1e-2, "moments_every": 5, "update_every": 50},
}
_DEFAULT: Configuration = {"learning_rate": 1e-2}
_WARM_UP = 0.2
"""Share of the steps over which the weight of the KL rises from 0 to 1, in regression by WHVI with several layers."""
_STEPS = {"mfg": 20_200, "mcd": 20_200, "nng": 10_100}
"""Where fewer than the profile's do: the rate falls to zero over them, whatever their number."""


def profile(name: str) -> Configuration:
    """The settings of a profile."""
    if name not in PROFILES:
        raise ArgumentError(f"profile {name!r} is unknown; use one of: {', '.join(PROFILES)}")
    return PROFILES[name]


def configuration(method: str, task: str, depth: int = 2) -> Configuration:
    """Of a method on a task, with so many hidden layers.

    >>> configuration("whvi", "regression")["learning_rate"]
    0.01
    """
    settings = {**_COMMON, **_OF_METHOD.get(method, _DEFAULT)}
    if (method, task) == ("whvi", "regression") and depth > 1:
        settings["kl_warm_up"] = _WARM_UP
    return settings | {"scaling": "clipped" if task == "classification" else "standard"}


@dataclass(frozen=True)
class Recipe:
    """``configuration`` with what a table changes in it, and the steps of each method.

    ``whole``, where it is there, stands in place of ``configuration``, for all methods, tasks and depths, and
    ``in_classification`` is changed for that task alone.

    >>> PLAIN.steps("whvi", 50_500), PLAIN.steps("mfg", 50_500), PLAIN.steps("mfg", 20)
    (50500, 20200, 20)
    >>> SHALLOW.configuration("whvi", "regression", 1)["layers"]
    'S_var H G H S_var'
    """

    changes: Mapping[str, Configuration]
    fewer_steps: Mapping[str, int]
    whole: Configuration | None = None
    in_classification: Mapping[str, Configuration] = field(default_factory=dict)

    def configuration(self, method: str, task: str, depth: int) -> Configuration:
        """Of a method on a task, with so many hidden layers."""
        settings = configuration(method, task, depth) if self.whole is None else self.whole
        more = self.in_classification.get(method, {}) if task == "classification" else {}
        return settings | self.changes.get(method, {}) | more

    def steps(self, method: str, most: int) -> int:
        """Of a method under a profile that has ``most``."""
        return min(most, self.fewer_steps.get(method, most))


PLAIN = Recipe({}, _STEPS)
EQUAL = Recipe({}, {})
"""With as many steps for rivals as for WHVI."""
SHALLOW = Recipe(
    {"whvi": {"kl_warm_up": _WARM_UP, "layers": "S_var H G H S_var"}, "nng": {"learning_rate": 1e-2}},
    {"mfg": 20_200, "nng": 40_400},
)
"""Of regression with one layer, where methods are not compared by their bounds: WHVI infers its scales, too."""
_WARM: Configuration = {"kl_warm_up": _WARM_UP}
PRIORS = Recipe(dict.fromkeys(("whvi-prior-1e-2", "whvi-prior-1e-5", "whvi-constant"), _WARM), {})
"""Of regression under other priors: that of WHVI."""
JOINED = Recipe(dict.fromkeys(("whvi-embed", "whvi-shared-g", "whvi-one-matrix"), _WARM), {})
"""Of regression where layers have something in common: that of WHVI."""
_RICH = ("whvi-t2", "whvi-t4", "whvi-t8", "whvi-grid32")
TERMS = Recipe(
    {
        **{method: {"kl_warm_up": _WARM_UP, "narrower_start": 10.0, "learning_rate": 2e-2} for method in _RICH},
        "low-rank": {"kl_warm_up": _WARM_UP},
    },
    {"mfg": 20_200},
    in_classification={method: {"kl_warm_up": 0.9} for method in _RICH},
)
"""Of WHVI with several terms or a grid, and its rivals: MC dropout has as many steps as WHVI."""


PROTOCOL = Recipe(
    {
        "whvi": {"layers": "whvi-protocol"},
        "whvi-he": {"layers": "whvi-protocol-he"},
        "mfg": {"layers": "mfg-protocol"},
        "mcd": {},
    },
    {},
    {
        "batch_size": 64,
        "noise": "scalar",
        "noise_variance": round(exp(-1.5), 6),
        "frozen_steps": 500,
        "schedule": "paper",
        "learning_rate": 1e-3,
        "scaling": "standard",
        "targets": "raw",
    },
)
"""The paper's own, to the letter, for the methods that it ran with its own code. Where it is silent (the start of the
noise and of the weights, one variance for all outputs, priors of plain weights), the authors' public code has the say,
https://github.com/srossi93/vardl."""


def algorithm(method: str, settings: Configuration, steps: int) -> SVI | NoisyKFAC:
    """The algorithm that a configuration asks for."""
    schedules: dict[str, Schedule] = {"cosine": CosineDecay(steps), "paper": PowerDecay()}
    schedule = schedules[settings["schedule"]]
    if method == "nng":
        names = ("learning_rate", "adam_learning_rate", "damping", "moments_every", "update_every")
        return NoisyKFAC(schedule=schedule, **{name: settings[name] for name in names})
    kl_weight = LinearWarmup(max(1, round(settings["kl_warm_up"] * steps))) if "kl_warm_up" in settings else 1.0
    return SVI(settings["learning_rate"], schedule=schedule, kl_weight=kl_weight)
