"""Early stopping."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from math import nan
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from whvi.annotations import checked
from whvi.arguments import number, whole_number
from whvi.errors import ArgumentError, InputTypeError
from whvi.inference.batches import digest
from whvi.inference.callbacks.base import Callback, Moment
from whvi.inference.elbo import check_rows
from whvi.inference.seeds import mix
from whvi.likelihoods import Likelihood
from whvi.rows import Inputs

if TYPE_CHECKING:  # it needs this file
    from whvi.inference.resuming import Part


@dataclass
class Best:
    """The best evaluation of a model so far."""

    value: float = float("inf")
    misses: int = 0
    """Evaluations since then."""
    tensors: dict[str, Tensor] = field(default_factory=dict)


class EarlyStopping(Callback):
    """Stop when a metric has not improved for a while, and restore the best parameters.

    Each replica restores its own best parameters, and is not evaluated after its patience is over; the run stops when
    the patience of all is over.

    Args:
        monitor: "elbo", the mean of the bound over the steps since the last evaluation, or "mnll", the mean negative
            log predictive density of the validation rows.
        every: steps between evaluations.
        patience: evaluations without improvement before the run stops.
        margin: the smallest improvement that counts, in the unit of the metric.
        samples: draws in a prediction for "mnll".
        validation: (x, y) held-out rows, in the form of the data; required for "mnll", and also evaluated for "elbo".
    """

    everywhere: ClassVar[bool] = True  # all processes stop, and go back to the best
    reason: ClassVar[str] = "early"
    name: ClassVar[str] = "early_stopping"

    @checked
    def __init__(
        self,
        monitor: str = "mnll",
        every: int = 500,
        patience: int = 10,
        margin: float = 0.0,
        samples: int = 16,
        validation: tuple[Inputs, Tensor] | None = None,
    ) -> None:
        if monitor not in ("elbo", "mnll"):
            raise ArgumentError(f"monitor must be 'elbo' or 'mnll', got {monitor!r}")
        if margin < 0.0:
            raise ArgumentError(f"margin must not be negative, got {margin}")
        self.monitor, self.margin, self.validation = monitor, margin, validation
        self.every, self.patience = whole_number("every", every), whole_number("patience", patience)
        self.samples = whole_number("samples", samples)
        self.bests: dict[str, Best] = {}
        """Of each model of the fit, by the prefix of its names: "" where it is the only one."""
        self._sum, self._count = torch.zeros((), dtype=torch.float64), 0

    def on(self, validation: tuple[Inputs, Tensor]) -> Self:
        """A copy with validation rows."""
        found = copy(self)
        found.validation = validation
        return found

    def setup(self, moment: Moment) -> None:
        """Check that the fit fits the settings."""
        # It may have served another fit.
        self.bests = {part.prefix: Best() for part in moment.loop.parts}
        self._sum, self._count = torch.zeros((), dtype=torch.float64), 0
        if self.validation is None:
            if self.monitor == "mnll":
                raise ArgumentError("early stopping on 'mnll' needs validation=(x, y); or use monitor='elbo'")
            return
        if not isinstance(self.validation, tuple | list) or len(self.validation) != 2:
            raise InputTypeError(f"validation must be a pair (x, y), got {type(self.validation).__name__}")
        check_rows(*self.validation)
        self.likelihood_of(moment.loop.parts[0]).targets(self.validation[1])

    def likelihood_of(self, part: "Part") -> Likelihood:
        """The likelihood of the validation rows."""
        return part.likelihood

    def value(self, part: "Part") -> float:
        """Mean negative log predictive density of the validation rows; a subclass may use another metric."""
        from whvi.predictive import predict  # data go from inference to prediction; here alone they come back

        assert self.validation is not None
        x, y = self.validation
        likelihood, seed = self.likelihood_of(part), mix(part.seed, "validation")
        return float(predict(part.model, x, self.samples, likelihood=likelihood, seed=seed).mnll(y))

    def on_step(self, moment: Moment) -> bool:
        """Record the bound, and evaluate every so many steps; True ends the run."""
        assert moment.terms is not None
        self._sum = self._sum + (moment.terms.log_likelihood - moment.terms.kl).double().cpu()
        self._count += 1
        if moment.step % self.every:
            return False
        numbers = (-self._sum / self._count).reshape(-1).tolist()
        self._sum, self._count = torch.zeros_like(self._sum), 0
        loop = moment.loop
        if not loop.modules:
            moment.run.finish()  # looks are at the models
        if self.validation is not None:
            own = [self._value(part) if moment.run.leads else 0.0 for part in loop.parts]
            found = [moment.run.everyone(value)[0] for value in own]
            moment.history.validation.append((moment.step, found[0] if loop.modules else found))
            numbers = found if self.monitor == "mnll" else numbers
        for part, value in zip(loop.parts, numbers, strict=True):
            if not self._over(part):
                self._look(self.bests[part.prefix], value, partial(loop.module_tensors, part))
        return all(map(self._over, loop.parts))

    def on_end(self, moment: Moment) -> None:
        """Restore the best parameters."""
        if best := self.leaves():
            moment.loop.load_modules(best)
            moment.run.take()

    def leaves(self) -> Mapping[str, Tensor]:
        """The best parameters."""
        return {name: tensor for best in self.bests.values() for name, tensor in best.tensors.items()}

    def identity(self) -> dict[str, Any]:
        """Settings, and the rows."""
        names = ("monitor", "every", "patience", "margin", "samples")
        rows = {} if self.validation is None else {"validation": digest(*self.validation)}
        return {"class": type(self).__name__, **{name: getattr(self, name) for name in names}, **rows}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The best value so far, its tensors, and the current mean."""
        tensors = {f"best.{name}": tensor for name, tensor in self.leaves().items()}
        values, misses = ([getattr(best, name) for best in self.bests.values()] for name in ("value", "misses"))
        alone = list(self.bests) == [""]
        numbers = {"best": values[0], "misses": misses[0]} if alone else {"best": values, "misses": misses}
        return {"sum": self._sum, **tensors}, {**numbers, "count": self._count}

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """As it was."""
        values, misses = (found if isinstance(found := numbers[n], list) else [found] for n in ("best", "misses"))
        saved = {n.removeprefix("best."): t for n, t in tensors.items() if n.startswith("best.")}
        for (prefix, best), value, missed in zip(self.bests.items(), values, misses, strict=True):
            best.value, best.misses = number("best", value), whole_number("misses", missed, least=0)
            best.tensors = {name: tensor for name, tensor in saved.items() if name.startswith(prefix)}
        self._count, self._sum = whole_number("count", numbers["count"], least=0), tensors["sum"]

    def _over(self, part: "Part") -> bool:
        """Whether the patience for a model is over."""
        return self.bests[part.prefix].misses >= self.patience

    def _value(self, part: "Part") -> float:
        return nan if self._over(part) else self.value(part)

    def _look(self, best: Best, value: float, tensors: Callable[[], Mapping[str, Tensor]]) -> None:
        """Record a value; less is better."""
        if value < best.value - self.margin:
            best.value, best.misses = value, 0
            best.tensors = {name: tensor.detach().clone() for name, tensor in tensors().items()}
        else:
            best.misses += 1
