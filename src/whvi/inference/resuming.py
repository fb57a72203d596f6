"""The state from which a fit resumes, and how it is restored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from torch import Tensor, nn

from whvi.errors import CheckpointError, UnsupportedError
from whvi.inference.algorithm import Run
from whvi.inference.callbacks.base import Callback
from whvi.inference.callbacks.history import History
from whvi.inference.identity import another_start, check_frozen, check_same
from whvi.inference.old_checkpoints import translated
from whvi.io import checkpoint
from whvi.io.forged import not_as_saved
from whvi.likelihoods import Likelihood
from whvi.nn.fingerprint import difference, of_modules
from whvi.nn.swap import copied, give_back

Value = TypeVar("Value")


class Part(NamedTuple):
    """A model of a fit with its likelihood and names: the only one, or a replica."""

    prefix: str
    """Of the names of its modules: "" for a single model, otherwise "0.", "1.", ..."""
    model: nn.Module
    likelihood: Likelihood
    seed: int


@dataclass(kw_only=True)
class Resumable:
    """A run with its modules and callbacks: all that a checkpoint holds, as tensors and JSON.

    Law: after ``restore`` of a ``state``, further steps are bitwise identical.
    """

    run: Run
    steps: int
    modules: Mapping[str, nn.Module]
    """Modules whose tensors belong to the state, besides those of the run."""
    parts: Sequence[Part]
    """Everything that the run changes: one model and likelihood, with the tensors of ``modules``, or all replicas."""
    identity: Callable[[], dict[str, Any]]
    """The identity of this run, without its callbacks."""
    history: History
    callbacks: Sequence[Callback]
    """The history is one of them."""
    start: dict[str, str] = field(default_factory=dict)
    """Fingerprint of the modules before the first step; recorded if there is a checkpoint."""

    def __post_init__(self) -> None:
        kinds = ("model", "likelihood")
        self.owners: dict[str, nn.Module] = {p.prefix + kind: getattr(p, kind) for kind in kinds for p in self.parts}
        """The modules that the run changes, by name."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The whole state of the run, as tensors and JSON."""
        tensors = self.module_tensors()
        tensors |= {f"run.{name}": tensor for name, tensor in self.run.tensors().items()}
        states: dict[str, Any] = {}
        for callback in self._named():
            own, states[callback.name] = callback.state()
            tensors |= {f"callbacks.{callback.name}.{name}": tensor for name, tensor in own.items()}
        numbers = {
            "identity": self._described(),
            "start": self.start,
            "run": self.run.numbers(),
            "stopped": self.history.stopped,
            "callbacks": states,
        }
        return tensors, numbers

    def restore(self, saved: checkpoint.SavedState, folder: object) -> None:
        """Restore the state in a folder; raise CheckpointError if it belongs to another run."""
        given = {name: copied(module) for name, module in self.owners.items()}
        try:
            self._restore(saved, folder)
        except BaseException as error:  # a model that is refused stays as it was
            for name, module in self.owners.items():
                give_back(module, given[name])
            if isinstance(error, KeyError):
                raise CheckpointError(
                    f"the checkpoint in {folder} lacks {error}: it belongs to another kind of run; "
                    "choose another folder"
                ) from None
            if isinstance(error, Exception) and not isinstance(error, CheckpointError | UnsupportedError | MemoryError):
                raise not_as_saved(folder, "a run", error) from error
            raise

    def _restore(self, saved: checkpoint.SavedState, folder: object) -> None:
        saved = translated(saved)
        if saved.step > self.steps:
            raise CheckpointError(
                f"the run in {folder} has done {saved.step} steps, but steps is {self.steps}; use more steps, or "
                "choose another folder"
            )
        check_same(saved.state["identity"], self._described(), folder)
        _, tensors, state = saved
        now = of_modules(self.owners)
        check_frozen(self.modules, tensors, folder)
        self.load_modules(tensors)
        self.run.restore(_below("run.", tensors), state["run"])
        for callback in self._named():
            if callback.name in state["callbacks"]:  # else the earlier run had none, and it starts afresh
                callback.restore(_below(f"callbacks.{callback.name}.", tensors), state["callbacks"][callback.name])
        self.start = state.get("start", now)  # version 0.1 did not keep it
        if found := difference(self.start, now):
            self._check_continued(now, found, folder)
            self.load_modules(tensors)
        # A callback may decide otherwise now; what early stopping found stays found.
        self.history.stopped = "early" if state["stopped"] == "early" else "steps"

    def _check_continued(self, now: Mapping[str, str], found: str, folder: object) -> None:
        """Raise CheckpointError unless each module has the weights of the start of the run or of an earlier call."""
        self.run.finish()
        left = [of_modules(self.owners)]
        for callback in self.callbacks:
            if best := callback.leaves():
                self.load_modules(best)
                left.append(of_modules(self.owners))
        saved = self.module_tensors() if self.modules else left[0].keys() - self.run.unsaved()
        unsaved = {name: digest for name, digest in self.start.items() if name not in saved}
        known = all(
            any(_below(f"{owner}.", one) == _below(f"{owner}.", now) for one in (self.start, *left))
            for owner in self.owners
        )
        if not known or any(now.get(name) != digest for name, digest in unsaved.items()):
            raise another_start(found, folder)

    def _named(self) -> list[Callback]:
        """The callbacks with an entry in a checkpoint."""
        return [callback for callback in self.callbacks if callback.name]

    def _described(self) -> dict[str, Any]:
        """The identity of this run, with that of its callbacks."""
        own = {callback.name: identity for callback in self._named() if (identity := callback.identity())}
        return {**self.identity(), "callbacks": own}

    def module_tensors(self, part: Part | None = None) -> dict[str, Tensor]:
        """The tensors of the modules, by name; or those of a part that the run changes."""
        found = {}
        owners = self.modules if part is None else {n: m for n, m in self.owners.items() if n.startswith(part.prefix)}
        for prefix, module in owners.items():
            for name, value in module.state_dict().items():
                if not isinstance(value, Tensor):
                    raise UnsupportedError(
                        f"{prefix}.{name} is a {type(value).__name__}, which a checkpoint cannot hold; it takes tensors"
                    )
                found[f"{prefix}.{name}"] = value
        unsaved = self.run.unsaved()
        return {name: value for name, value in found.items() if name not in unsaved}

    def load_modules(self, tensors: Mapping[str, Tensor]) -> None:
        """Load the tensors of the modules; for replicas, those that exist."""
        for prefix, module in self.owners.items():
            own = _below(f"{prefix}.", tensors)
            if self.modules or own:
                module.load_state_dict(own, strict=bool(self.modules))


def _below(prefix: str, named: Mapping[str, Value]) -> dict[str, Value]:
    """Those whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}
