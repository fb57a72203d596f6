"""The interface of inference algorithms, which ``whvi.fit`` runs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from torch import Tensor, nn

from whvi.errors import UnsupportedError
from whvi.likelihoods import Likelihood
from whvi.nn.anatomy import describe
from whvi.rows import Inputs

if TYPE_CHECKING:  # it is a kind of Run
    from whvi.inference.replicas import Replicas


class Terms(NamedTuple):
    """The report of a step, in nats for the whole dataset. Replicas report one number each: (R,) in place of ()."""

    log_likelihood: Tensor
    """Estimate of E[log p(y | f)], scaled to all N rows."""
    kl: Tensor
    """KL of the posterior to the prior; for algorithms without one, minus the logarithm of the prior density."""


class Run(ABC):
    """The state of an algorithm on a model, which it changes in place. The state is tensors and JSON."""

    model: nn.Module
    leads: bool = True
    """Whether this process writes files and output for all processes of the run; most runs have one process."""

    @abstractmethod
    def update(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """One step, with a batch of inputs and checked targets. ``step`` counts from 0.

        All randomness comes from torch's generator, also through ``whvi.ops.draw_seed``; ``whvi.fit`` seeds it for each
        step. So a step is a function of its number, the state and the batch, and a resumed run repeats it.
        """

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All tensors of the state besides those of the model and the likelihood, by name; may be empty."""

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """The rest of the state, as JSON."""

    @abstractmethod
    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Restore the state of ``tensors`` and ``numbers``."""

    def finish(self) -> None:  # noqa: B027 (most have nothing to do)
        """Write the result to the model and the likelihood, if it is not there already; the run may continue."""

    def take(self) -> None:  # noqa: B027 (most hold it there)
        """Take the current values of the model and the likelihood."""

    def unsaved(self) -> set[str]:
        """Tensors that the run neither changes nor saves, by their names in a fingerprint of the modules."""
        return set()

    def everyone(self, value: float) -> list[float]:
        """The values of all processes of the run; all of them must call this."""
        return [value]

    def identity(self) -> dict[str, Any]:
        """What a checkpoint and the run must share besides the algorithm, as JSON."""
        return {}

    def close(self) -> None:  # noqa: B027 (most have nothing to do)
        """Release the resources of the run, after its last step."""

    def learned(self) -> list[Tensor]:
        """The tensors that steps change; they must stay finite."""
        return list(self.model.parameters())

    def posterior(self) -> nn.Module:
        """The object that predicts: the model, or an ensemble."""
        return self.model


class Members(NamedTuple):
    """R models that are fitted at once, with the data size and seed of each."""

    models: Sequence[nn.Module]
    likelihoods: Sequence[Likelihood]
    counts: Tensor
    """Rows of the data of each, (R,)."""
    seeds: Sequence[int]
    """Of the noise of each."""

    def pairs(self) -> list[tuple[nn.Module, Likelihood]]:
        """Each model with its likelihood."""
        return list(zip(self.models, self.likelihoods, strict=True))


class Algorithm(ABC):
    """Settings of an inference algorithm, as a frozen dataclass of plain values."""

    replacement: ClassVar[bool] = False
    """Whether the rows of a batch are drawn independently, or each row once in a pass over the data."""

    replica_settings: ClassVar[tuple[str, ...]] = ("learning_rate",)
    """The settings in which replicas may differ."""

    def check_call(self, steps: int, early_stopping: bool) -> None:  # noqa: B027 (most have nothing to refuse)
        """Raise an error if a fit with this number of steps cannot work."""

    def described(self) -> Any:
        """The settings as JSON, for the checks of a checkpoint."""
        return describe(self)

    @abstractmethod
    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> Run:
        """Start on a model, for a dataset of ``n_data`` rows."""

    def init_compiled(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> Run:
        """Start on a model with compiled steps, for ``whvi.fit(compile=True)``."""
        raise UnsupportedError(f"compile is for SVI() and MAP(); the steps of {type(self).__name__} are not one graph")

    @classmethod
    def init_replicas(cls, settings: Sequence[Self], members: Members, compile: bool = False) -> "Replicas":
        """Start on R models at once, for ``whvi.inference.fit_replicas``; most algorithms do not support this.

        Args:
            settings: one for each model; they may differ only in ``replica_settings``.
            members: the models.
            compile: compile the step.
        """
        raise UnsupportedError(f"{cls.__name__} cannot fit several models at once; fit them one by one with whvi.fit")
