"""What every way of inference has in common, so that ``whvi.fit`` can run any of them."""

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
    """What a step reports, in nats for the whole data set. Replicas report one number each: (R,) in place of ()."""

    log_likelihood: Tensor
    """Estimate of E[log p(y | f)], scaled to all N rows."""
    kl: Tensor
    """KL of the posterior to the prior; for algorithms without one, minus the logarithm of the prior density."""


class Run(ABC):
    """An algorithm at work on a model, which it changes in place. All that it keeps is tensors and JSON."""

    model: nn.Module
    leads: bool = True
    """Whether this process writes and speaks for all that share the run; most runs have one process."""

    @abstractmethod
    def update(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """One step, with a batch of inputs and checked targets. ``step`` counts from 0.

        All randomness comes from torch's generator, also through ``whvi.ops.draw_seed``; ``whvi.fit`` seeds it for each
        step. So a step is a function of its number, the state and the batch, and a run that is resumed repeats it.
        """

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All tensors a run resumes from besides those of the model and the likelihood, by name; may be empty."""

    @abstractmethod
    def numbers(self) -> dict[str, Any]:
        """The rest, as JSON."""

    @abstractmethod
    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Go on from what ``tensors`` and ``numbers`` gave."""

    def finish(self) -> None:  # noqa: B027 (most have nothing to do)
        """Leave the result in the model and the likelihood, where it is not there already; the run may go on."""

    def take(self) -> None:  # noqa: B027 (most hold it there)
        """Go on from what the model and the likelihood hold now."""

    def unsaved(self) -> set[str]:
        """What is neither changed nor kept by the run, by the name that it has in a fingerprint of its modules."""
        return set()

    def everyone(self, value: float) -> list[float]:
        """The value that each process of the run has; all of them must ask."""
        return [value]

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must have in common with the run besides the algorithm, as JSON."""
        return {}

    def close(self) -> None:  # noqa: B027 (most have nothing to do)
        """Let go of what the run holds, after its last step."""

    def learned(self) -> list[Tensor]:
        """The tensors that steps change, which must stay finite."""
        return list(self.model.parameters())

    def posterior(self) -> nn.Module:
        """What to predict with: the model, or many of them."""
        return self.model


class Members(NamedTuple):
    """R models that are fitted at once, with what each has of its own."""

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
    """Settings of a way of inference, as a frozen dataclass of plain values."""

    replacement: ClassVar[bool] = False
    """Whether the rows of a batch are drawn independently, or each once in a pass over the data."""

    replica_settings: ClassVar[tuple[str, ...]] = ("learning_rate",)
    """The settings in which replicas may differ."""

    def check_call(self, steps: int, early_stopping: bool) -> None:  # noqa: B027 (most have nothing to refuse)
        """Raise the error that says why a fit of so many steps cannot end well, if it cannot."""

    def described(self) -> Any:
        """The settings as JSON, for what a checkpoint is checked by."""
        return describe(self)

    @abstractmethod
    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> Run:
        """Start on a model, for a data set of ``n_data`` rows."""

    def init_compiled(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> Run:
        """Start on a model, with steps that are one compiled graph, as ``whvi.fit(compile=True)`` asks for."""
        raise UnsupportedError(f"compile is for SVI() and MAP(); the steps of {type(self).__name__} are not one graph")

    @classmethod
    def init_replicas(cls, settings: Sequence[Self], members: Members, compile: bool = False) -> "Replicas":
        """Start on R models at once, which ``whvi.inference.fit_replicas`` asks for; most algorithms cannot.

        Args:
            settings: one for each model; alike but for ``replica_settings``.
            members: the models.
            compile: make the step one graph.
        """
        raise UnsupportedError(f"{cls.__name__} cannot fit several models at once; fit them one by one with whvi.fit")
