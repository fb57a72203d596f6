"""Several processes that fit one model: each takes a part of the rows of a batch, and gradients are averaged.

Law: the objective is that of one process with the same batch. A part of m of the M rows is weighted by m / M, and the
KL is equal in all processes, so the mean over processes counts it once.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.errors import ArgumentError, UnsupportedError
from whvi.inference.algorithm import Algorithm, Run, Terms
from whvi.inference.seeds import mix, start_generators
from whvi.inference.svi import SVI, SVIRun
from whvi.likelihoods import Likelihood
from whvi.ops.torch_private import release_processes
from whvi.rows import Inputs, mapped

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that torchrun sets."""
_numbers = count()


@dataclass(frozen=True)
class Team:
    """The processes that share a fit, seen by one of them. By default it is alone.

    >>> Team(rank=1, size=2).part(torch.arange(5))
    tensor([3, 4])
    """

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009 (it cannot change)
    """The device of tensors for communication."""

    @property
    def leads(self) -> bool:
        """Whether this process writes files and output for all."""
        return self.rank == 0

    def part(self, rows: Tensor) -> Tensor:
        """The rows of this process; if they do not divide evenly, the first processes have one more."""
        return rows.tensor_split(self.size)[self.rank]

    def gather(self, *values: Tensor | float) -> Tensor:
        """The values of all processes, (size, number of values), on the CPU and in float64. All must call it."""
        own = torch.tensor([float(value) for value in values], dtype=torch.float64, device=self.device)
        if self.size == 1:
            return own.unsqueeze(0)
        found = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(found, own)
        return torch.stack(found).cpu()

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Broadcast the tensors of the first process."""
        if self.size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)


@contextmanager
def team(distributed: bool, device: torch.device | None = None) -> Iterator[Team]:
    """The processes of this fit: those of torch.distributed, or of torchrun, whose group is then created and closed
    here.

    Args:
        distributed: whether there are other processes.
        device: of the model.
    """
    device = device or torch.device("cpu")
    with ExitStack() as ending:
        if not distributed:
            yield Team()
            return
        if not dist.is_available():
            raise UnsupportedError("this torch was built without torch.distributed; fit in one process")
        if not dist.is_initialized():
            _join("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
            ending.callback(dist.destroy_process_group)
        yield Team(dist.get_rank(), dist.get_world_size(), device)


def _join(backend: str) -> None:
    """Create a group of the processes that torchrun started."""
    missing = [name for name in _VARIABLES if name not in os.environ]
    if missing:
        raise ArgumentError(
            f"Distributed() needs several processes, but {', '.join(missing)} are not set; start the program with "
            "torchrun --nproc-per-node 2 ..., or call torch.distributed.init_process_group first"
        )
    from torch.distributed.distributed_c10d import PrefixStore

    store, rank, size = _meeting_place()
    # Names of their own for each group: what an earlier one left in the store is out of date.
    names = PrefixStore(f"whvi.fit {next(_numbers)}", store)
    dist.init_process_group(backend, store=names, rank=rank, world_size=size)


@cache
def _meeting_place() -> "tuple[Store, int, int]":
    """The store, rank and size of the processes; cached, because a second store could find the first."""
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://"))
    return store, rank, size


def launched() -> bool:
    """Whether torchrun, or a compatible launcher, started this process."""
    return all(name in os.environ for name in _VARIABLES)


@checked
@dataclass(frozen=True)
class Distributed(Algorithm):
    """Split the rows of each batch among the processes that torchrun started, or of an existing process group.

    All processes make the same call of ``whvi.fit`` and end with the same tensors. The objective is that of one process
    with the same batch. Noise differs between them. Batch normalisation uses the statistics of each part, and keeps
    those of the first process. Only the first process runs callbacks, validates, prints and writes; all read the
    checkpoint. Every parameter must be used in the forward pass.

    Args:
        algorithm: ``SVI()``, the default, or ``MAP()``.
    """

    algorithm: Algorithm | None = None

    def init(self, model: nn.Module, likelihood: Likelihood, n_data: int) -> Run:
        """Start on a model in all processes, with the tensors of the first."""
        algorithm = SVI() if self.algorithm is None else self.algorithm
        device = next((parameter.device for parameter in model.parameters()), None)
        with ExitStack() as stack:
            group = stack.enter_context(team(True, device))
            if group.size == 1:
                return algorithm.init(model, likelihood, n_data)
            if not isinstance(algorithm, SVI):
                raise UnsupportedError(
                    f"several processes can share SVI and MAP, but not {type(algorithm).__name__}; fit in one process"
                )
            run = SharedRun(algorithm, model, likelihood, n_data, group)
            run.ending = stack.pop_all()
            return run

    def described(self) -> Any:
        """The settings of the wrapped algorithm."""
        return (SVI() if self.algorithm is None else self.algorithm).described()


class SharedRun(SVIRun):
    """A run of SVI on one model in several processes. Each gets whole batches and takes its part."""

    ending: ExitStack
    """Closes the process group, if this run created it."""

    def __init__(self, settings: SVI, model: nn.Module, likelihood: Likelihood, n_data: int, group: Team) -> None:
        super().__init__(settings, model, likelihood, n_data)
        self.group, self.leads = group, group.leads
        # Buffers go to all after each step, and not before the next one: so they are the same when a run ends.
        self.objective = nn.parallel.DistributedDataParallel(self.bound, broadcast_buffers=False)

    def update(self, x: Inputs, y: Tensor, step: int) -> Terms:
        """One step, with the noise of this process; the terms are those of the whole batch."""
        if not self.leads:
            start_generators(mix(torch.initial_seed(), self.group.rank))
        terms = super().update(x, y, step)
        self.group.share([*self.model.buffers(), *self.likelihood.buffers()])
        return Terms(*self.group.gather(*terms).mean(0))

    def evaluate(self, x: Inputs, y: Tensor) -> Terms:
        """The terms of the bound for this process's rows."""
        rows, size = len(y), self.group.size
        if rows < size:
            raise ArgumentError(
                f"a batch of {rows} rows cannot be divided among {size} processes; make batches larger, or let a "
                "DataLoader drop the last one"
            )
        x, y = mapped(self.group.part, x), self.group.part(y)
        terms: Terms = self.objective(x, y, self.n_data * len(y) * size / rows)
        return terms

    def everyone(self, value: float) -> list[float]:
        """Of all processes."""
        found: list[float] = self.group.gather(value).flatten().tolist()
        return found

    def identity(self) -> dict[str, Any]:
        """A run resumes only with the same number of processes."""
        return {"processes": self.group.size}

    def close(self) -> None:
        """Close the group."""
        release_processes(self.objective)
        self.ending.close()
