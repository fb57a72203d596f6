"""When to stop before the last step."""

from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from whvi.arguments import whole_number
from whvi.errors import ArgumentError, InputTypeError, UnsupportedError
from whvi.inference.batches import digest
from whvi.inference.callbacks.base import Callback, Moment
from whvi.inference.elbo import check_rows
from whvi.inference.seeds import mix
from whvi.likelihoods import Likelihood
from whvi.rows import Inputs


class EarlyStopping(Callback):
    """Stop when a number has not become better for a while, and go back to where it was best.

    Args:
        monitor: "elbo", the mean of the bound over the steps since the last look, or "mnll", the mean negative log
            predictive density of the validation rows.
        every: steps between looks.
        patience: looks without a better value before the run stops.
        margin: how much better counts as better, in the unit of the number.
        samples: draws in a prediction for "mnll".
        validation: (x, y) held-out rows, as the model takes them; needed for "mnll", and for "elbo" looked at too.
    """

    everywhere: ClassVar[bool] = True  # all processes stop, and go back to the best
    reason: ClassVar[str] = "early"
    name: ClassVar[str] = "early_stopping"

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
        self.best, self.misses = float("inf"), 0
        self.tensors: dict[str, Tensor] = {}
        """Of the best look."""
        self._sum, self._count = torch.zeros((), dtype=torch.float64), 0

    def on(self, validation: tuple[Inputs, Tensor]) -> Self:
        """The same, with validation rows."""
        found = copy(self)
        found.validation = validation
        return found

    def setup(self, moment: Moment) -> None:
        """Check that the fit has what it takes."""
        # It may have served another fit.
        self.best, self.misses, self.tensors = float("inf"), 0, {}
        self._sum, self._count = torch.zeros((), dtype=torch.float64), 0
        modules = moment.loop.modules
        if not modules:
            raise UnsupportedError("replicas have no common step to stop at; fit them without EarlyStopping")
        if self.validation is None:
            if self.monitor == "mnll":
                raise ArgumentError("early stopping on 'mnll' needs validation=(x, y); or use monitor='elbo'")
            return
        if not isinstance(self.validation, tuple | list) or len(self.validation) != 2:
            raise InputTypeError(f"validation must be a pair (x, y), got {type(self.validation).__name__}")
        check_rows(*self.validation)
        self.likelihood_of(moment).targets(self.validation[1])

    def likelihood_of(self, moment: Moment) -> Likelihood:
        """The likelihood of the validation rows."""
        return moment.loop.likelihood

    def value(self, moment: Moment) -> float:
        """Mean negative log predictive density of the validation rows; a subclass may look at something else."""
        from whvi.predictive import predict  # data go from inference to prediction; here alone they come back

        assert self.validation is not None
        x, y = self.validation
        seed = mix(moment.loop.seed, "validation")
        model, likelihood = moment.loop.modules["model"], self.likelihood_of(moment)
        return float(predict(model, x, self.samples, likelihood=likelihood, seed=seed).mnll(y))

    def on_step(self, moment: Moment) -> bool:
        """Take in the bound; look at the rows where it is time. True when it is time to stop."""
        assert moment.terms is not None
        self._sum = self._sum + (moment.terms.log_likelihood - moment.terms.kl).double().cpu()
        self._count += 1
        if moment.step % self.every:
            return False
        number = -float(self._sum / self._count)
        self._sum, self._count = torch.zeros_like(self._sum), 0
        if self.validation is not None:
            own = self.value(moment) if moment.run.leads else 0.0
            found = moment.run.everyone(own)[0]
            moment.history.validation.append((moment.step, found))
            number = found if self.monitor == "mnll" else number
        return self._look(number, moment.loop.module_tensors())

    def on_end(self, moment: Moment) -> None:
        """Go back to the best."""
        if self.tensors:
            moment.loop.load_modules(self.tensors)

    def leaves(self) -> Mapping[str, Tensor]:
        """The best."""
        return self.tensors

    def identity(self) -> dict[str, Any]:
        """Settings, and the rows."""
        names = ("monitor", "every", "patience", "margin", "samples")
        rows = {} if self.validation is None else {"validation": digest(*self.validation)}
        return {"class": type(self).__name__, **{name: getattr(self, name) for name in names}, **rows}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The best value so far, the tensors from there, and the mean that is being taken."""
        tensors = {f"best.{name}": tensor for name, tensor in self.tensors.items()}
        return {"sum": self._sum, **tensors}, {"best": self.best, "misses": self.misses, "count": self._count}

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """As it was."""
        self.best, self.misses, self._count = numbers["best"], numbers["misses"], numbers["count"]
        self._sum = tensors["sum"]
        self.tensors = {n.removeprefix("best."): t for n, t in tensors.items() if n.startswith("best.")}

    def _look(self, value: float, tensors: Mapping[str, Tensor]) -> bool:
        """Take in a value, for which less is better; True when it is time to stop."""
        if value < self.best - self.margin:
            self.best, self.misses = value, 0
            self.tensors = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        else:
            self.misses += 1
        return self.misses >= self.patience
