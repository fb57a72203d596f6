"""What ``bayesianize`` did to a model, as a recipe that stays with the model and can be followed again."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from whvi.caller import warn_caller
from whvi.convert.layers import Options
from whvi.errors import UnsupportedError
from whvi.posterior.plain import plain_prior, prior_from

_RECIPE = "_whvi_conversions"
"""Under which name a model has its recipes; private, so that it is no part of what a checkpoint knows a model by."""
_SPECS = ("posterior", "bias", "scales")


@dataclass(frozen=True)
class Conversion:
    """One call of ``bayesianize``."""

    options: Options
    layers: tuple[str, ...]
    """Names of the modules that were replaced."""
    given: tuple[str, ...] = ()
    """Those whose place was taken by a module that the rule gave, of which nothing more is known."""
    frozen: tuple[str, ...] = ()
    """Names of the parameters of the dense model that were not learned; frozen biases stay numbers."""

    def plain(self) -> dict[str, Any]:
        """The recipe as JSON."""
        if self.given:
            raise UnsupportedError(
                f"the rule of this conversion created its own layers ({', '.join(self.given[:3])}), which a recipe "
                "cannot create again; build the model with them and save its state_dict()"
            )
        for name in _SPECS:
            if not isinstance(value := getattr(self.options, name), str | bool | None):
                raise UnsupportedError(
                    f"{name} of this conversion is a {type(value).__name__}; to save the model, name it by a string"
                )
        options = {**vars(self.options), "prior_variance": plain_prior(self.options.prior_variance)}
        return {"options": options, "layers": list(self.layers), "frozen": list(self.frozen)}

    @staticmethod
    def of(value: Any) -> "Conversion":
        """The recipe that ``plain`` wrote. What a layer starts from does not matter: its numbers come from a file."""
        options = {**value["options"], "prior_variance": prior_from(value["options"]["prior_variance"])}
        return Conversion(Options(**{**options, "init": "prior"}), tuple(value["layers"]), (), tuple(value["frozen"]))


def conversions(model: nn.Module) -> tuple[Conversion, ...]:
    """The recipes of a model, in their order."""
    found: tuple[Conversion, ...] = vars(model).get(_RECIPE, ())
    return found


def remember(model: nn.Module, conversion: Conversion) -> None:
    """Keep the recipe with the model; of a Hugging Face model also say what ``save_pretrained`` cannot."""
    vars(model)[_RECIPE] = (*conversions(model), conversion)
    before = getattr(model, "save_pretrained", None)
    if callable(before) and not isinstance(before, partial):
        vars(model)["save_pretrained"] = partial(_save_pretrained, model)


def forget(model: nn.Module) -> None:
    """The opposite, for a model that has become dense."""
    for name in (_RECIPE, "save_pretrained"):
        vars(model).pop(name, None)


def _save_pretrained(model: nn.Module, *args: Any, **keywords: Any) -> Any:
    """What ``save_pretrained`` of a converted model is."""
    warn_caller(
        "from_pretrained does not know Bayesian layers: it makes a model without them, with random weights in their "
        "place. Save this model with whvi.save_model(model, folder), and load it with whvi.load_model(dense, folder), "
        "where dense is the model as it was before bayesianize",
        UserWarning,
    )
    save: Callable[..., Any] = type(model).save_pretrained  # type: ignore[attr-defined]
    return save(model, *args, **keywords)
