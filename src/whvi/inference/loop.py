"""The loop of all fits: steps, reports, looks at validation rows, checkpoints."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import isfinite
from os import PathLike
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from whvi.arguments import whole_number
from whvi.errors import CheckpointError, DivergenceError, UnsupportedError
from whvi.inference.algorithm import Run, Terms
from whvi.inference.batches import Batches
from whvi.inference.distributed import Team
from whvi.inference.history import History
from whvi.inference.identity import check_same
from whvi.inference.interruption import Interruption
from whvi.inference.progress import Progress
from whvi.inference.scalars import Scalars
from whvi.inference.seeds import mix, start_generators
from whvi.inference.stopping import Watch
from whvi.io import checkpoint

_REMEDY = "lower the learning rate or clip the gradient, and look at the scale of inputs and targets"


@dataclass(frozen=True)
class Moment:
    """What a callback is told."""

    step: int
    """Steps that are done."""
    run: Run
    history: History


Callback = Callable[[Moment], bool | None]
"""Called now and then; True ends the run."""


@dataclass
class Loop:
    """A run from its first step, or from its last checkpoint, to its end.

    A step depends on nothing but the tensors it starts from, its number and the seed: the rows of its batch and all
    noise are functions of these. So what a checkpoint holds is enough to go on in the same bits.
    """

    run: Run
    batches: Batches
    steps: int
    seed: int
    modules: Mapping[str, nn.Module]
    """Whose tensors belong to the state, besides those of the run."""
    noise: Callable[[], Any]
    identity: dict[str, Any]
    """What tells this run from others, for its checkpoints; empty where there are none."""
    history: History
    watch: Watch | None = None
    validate: Callable[[], float] | None = None
    callback: Callback | None = None
    callback_every: int = 1000
    folder: str | PathLike[str] | None = None
    checkpoint_every: int = 1000
    progress: bool | None = None
    log_dir: str | PathLike[str] | None = None
    team: Team = field(default_factory=Team)
    """All of its processes are in the loop; the first one alone calls back, validates, shows and writes."""
    _saved: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        for name in ("steps", "callback_every", "checkpoint_every"):
            whole_number(name, getattr(self, name))

    def go(self) -> float:
        """All steps that are left; the seconds they took."""
        leads = self.team.leads
        with ExitStack() as stack:
            if self.folder is not None and leads:
                stack.enter_context(checkpoint.alone(self.folder))
            done = self._resume()
            started = perf_counter()
            stack.callback(self.run.finish)  # also where the run is interrupted
            stack.enter_context(torch.enable_grad())
            stack.enter_context(torch.random.fork_rng())  # the caller's generator is left as it was
            interruption = stack.enter_context(Interruption(patient=self.team.size > 1))
            bar = stack.enter_context(Progress(self.steps, self.progress if leads else False, done, self.batches.rows))
            scalars = stack.enter_context(Scalars(self.log_dir if leads else None, done))
            while done < self.steps and self.history.stopped == "steps":
                terms, stop = self.team.agree(self._step(done), interruption.requested)
                done += 1
                if self.history.add(terms, done - 1, self.noise):
                    self._report(done, bar, scalars)
                self._look(done, terms, scalars)
                stop = self._call_back(done, interruption) or stop
                if self.folder is not None and (done % self.checkpoint_every == 0 or stop):
                    self._save(done)
                if stop:
                    raise KeyboardInterrupt(f"after {done} steps")
            self._check_finite(done)
            if self.folder is not None and self._saved != done:
                self._save(done)
            if self.history.close(done, self.noise):
                self._report(done, bar, scalars)
            bar.update(done)
            if self.watch is not None and self.watch.tensors:
                self._load_modules(self.watch.tensors)
            if self.team.gather(interruption.requested).any():  # after the last step, which looked at it
                raise KeyboardInterrupt(f"after {done} steps")
        return perf_counter() - started

    def _step(self, step: int) -> Terms:
        x, y = self.batches.at(step)
        start_generators(mix(self.seed, "step", step, *self.team.words))
        return self.run.update(x, y, step)

    def _check_finite(self, done: int) -> None:
        parameters = [p for module in self.modules.values() for p in module.parameters()]
        bad = sum(not tensor.isfinite().all() for tensor in (*parameters, *self.run.learned()))
        if bad:
            raise DivergenceError(f"parameters are not finite after {done} steps; {_REMEDY}")

    def _report(self, done: int, bar: Progress, scalars: Scalars) -> None:
        values = self.history.latest
        single = {name: sum(v) / len(v) if isinstance(v, list) else v for name, v in values.items()}
        if not all(isfinite(value) for value in single.values()):
            bound = values["elbo"]
            bad = [r for r, v in enumerate(bound) if not isfinite(v)] if isinstance(bound, list) else []
            where = f" in replicas {bad}" if bad else ""
            raise DivergenceError(f"the objective is not finite after {done} steps{where} ({single}); {_REMEDY}")
        bar.update(done, "  ".join(f"{name} {value:.4g}" for name, value in single.items()))
        scalars.add(single, done)

    def _look(self, done: int, terms: Terms, scalars: Scalars) -> None:
        if self.watch is not None:
            self.watch.add(terms)
            if done % self.watch.settings.every == 0:
                value = self._monitored(done, scalars)
                if self.watch.look(value, self._module_tensors()):
                    self.history.stopped = "early"

    def _call_back(self, done: int, interruption: Interruption) -> bool:
        """True where Ctrl-C was pressed meanwhile."""
        if self.callback is None or done % self.callback_every != 0:
            return False
        end: bool | None = False
        if self.team.leads:
            self.run.finish()  # so that the callback sees the models as they are
            try:
                end = self.callback(Moment(done, self.run, self.history))
            except KeyboardInterrupt:  # in the caller's own code, between two steps
                interruption.requested = True
        ends, stops = self.team.gather(bool(end), interruption.requested).any(0).tolist()
        if ends:
            self.history.stopped = "callback"
        return bool(stops)

    def _monitored(self, done: int, scalars: Scalars) -> float:
        assert self.watch is not None
        bound = self.watch.minus_elbo()
        if self.validate is None:
            return bound
        value = float(self.team.gather(self.validate() if self.team.leads else 0.0)[0])
        self.history.validation.append((done, value))
        scalars.add({"validation mnll": value}, done)
        return value if self.watch.settings.monitor == "mnll" else bound

    def _module_tensors(self) -> dict[str, Tensor]:
        found = {}
        for prefix, module in self.modules.items():
            for name, value in module.state_dict().items():
                if not isinstance(value, Tensor):
                    raise UnsupportedError(
                        f"{prefix}.{name} is a {type(value).__name__}, which a checkpoint cannot hold; it takes tensors"
                    )
                found[f"{prefix}.{name}"] = value
        return found

    def _load_modules(self, tensors: Mapping[str, Tensor]) -> None:
        for prefix, module in self.modules.items():
            start = f"{prefix}."
            module.load_state_dict({n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)})

    def _save(self, done: int) -> None:
        assert self.folder is not None
        history_tensors, history_numbers = self.history.state()
        tensors = {**self._module_tensors(), **history_tensors}
        tensors |= {f"run.{name}": tensor for name, tensor in self.run.tensors().items()}
        state = {
            "identity": self.identity,
            "run": self.run.numbers(),
            "history": history_numbers,
            "stopped": self.history.stopped,
        }
        if self.watch is not None:
            watch_tensors, state["watch"] = self.watch.state()
            tensors |= watch_tensors
        self._check_finite(done)  # so the last checkpoint is always a good one
        if self.team.leads:
            checkpoint.save(self.folder, done, tensors, state)
        self._saved = done

    def _resume(self) -> int:
        done = self._restore()
        all_done = self.team.gather(done).flatten().tolist()
        if len(set(all_done)) > 1:
            raise CheckpointError(
                f"the processes found checkpoints after {all_done} steps in {self.folder}; give a folder that all share"
            )
        return done

    def _restore(self) -> int:
        found = None if self.folder is None else checkpoint.latest(self.folder)
        if found is None:
            return 0
        if found.step > self.steps:
            raise CheckpointError(
                f"the run in {self.folder} has done {found.step} steps, but steps is {self.steps}; ask for more, or "
                "choose another folder"
            )
        try:
            check_same(found.state["identity"], self.identity, self.folder)
            self._load_modules(found.tensors)
            of_run = {n.removeprefix("run."): t for n, t in found.tensors.items() if n.startswith("run.")}
            self.run.restore(of_run, found.state["run"])
            self.history.restore(found.tensors, found.state["history"])
            if self.watch is not None:
                self.watch.restore(found.tensors, found.state["watch"])
            # A callback may decide otherwise now; what early stopping found stays found.
            self.history.stopped = "early" if found.state["stopped"] == "early" else "steps"
        except KeyError as error:
            raise CheckpointError(
                f"the checkpoint in {self.folder} lacks {error}: it is whole, but of another kind of run; "
                "choose another folder"
            ) from None
        self._saved = found.step
        return found.step


@contextmanager
def training(*models: nn.Module) -> Iterator[None]:
    """Models in training mode for a block, and each module in its own mode again after it.

    A model that is in training mode already is left as it is: parts of it may be in eval mode on purpose.
    """
    flags = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        if not model.training:
            model.train()
    try:
        yield
    finally:
        for module, flag in flags:
            module.training = flag
