"""Run by ``test_distributed.py`` in a fresh process: fits that two processes share, and the same in one.

``python sharing.py FOLDER``: prints one line of JSON, what each of the two found, and what one alone did.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers load it: here once, and not in each copy of this process
import torch.distributed as dist
from torch import Tensor, nn

from whvi.errors import WhviError
from whvi.inference import (
    MAP,
    SVI,
    Callback,
    Checkpoint,
    Distributed,
    EarlyStopping,
    Every,
    Fit,
    LinearWarmup,
    Moment,
    fit,
)
from whvi.likelihoods import Gaussian
from whvi.nn import MCDropout, MeanFieldLinear, WHVILinear
from whvi_paper.baselines import MatrixGaussianLinear, NoisyKFAC

PROCESSES = 2
ROWS, BATCH = 20, 7  # which two processes share as 4 and 3
STEPS = 12
Found = dict[str, Any]


def rows() -> tuple[Tensor, Tensor]:
    """A small regression."""
    x = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x, x.sin().sum(1)


def told(result: Fit, model: nn.Module, likelihood: nn.Module) -> Found:
    """All that a fit left, as JSON."""
    history = result.history
    tensors = {**model.state_dict(), **likelihood.state_dict()}
    return {
        "state": {name: tensor.tolist() for name, tensor in tensors.items()},
        "history": [history.steps, history.log_likelihood, history.kl, history.noise],
        "validation": history.validation,
        "stopped": history.stopped,
    }


def mode(distributed: bool, kl_weight: float = 1.0) -> Found:
    """MAP under a prior that matters."""
    torch.manual_seed(2 + (dist.is_initialized() and dist.get_rank()))  # the first process's tensors are for all
    model, likelihood = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double(), Gaussian().double()
    settings = MAP(1e-2, prior_variance=0.05, kl_weight=kl_weight)
    algorithm = Distributed(settings) if distributed else settings
    options = {"steps": STEPS, "batch_size": BATCH, "algorithm": algorithm}
    return told(fit(model, likelihood, rows(), **options), model, likelihood)


def quiet(distributed: bool) -> Found:
    """Dropout that drops nothing, with all that a step can do, until early stopping ends it."""
    torch.manual_seed(2)
    layers = (MCDropout(nn.Linear(3, 5).double(), 0.0), nn.Tanh(), MCDropout(nn.Linear(5, 1).double(), 0.0))
    model, likelihood = nn.Sequential(*layers), Gaussian(frozen_steps=4).double()
    settings = SVI(3e-2, kl_weight=LinearWarmup(6), clip=100.0, samples=2)
    result = fit(
        model,
        likelihood,
        rows(),
        steps=100,
        batch_size=BATCH,
        algorithm=Distributed(settings) if distributed else settings,
        callbacks=[EarlyStopping(every=5, patience=1, margin=0.05, samples=1, validation=rows())],
    )
    return told(result, model, likelihood)


class Noisy:
    """A network with all kinds of noise, and statistics of batches; all rows are equal, so that noise alone differs."""

    def __init__(self, interrupt_at: int = 0) -> None:
        torch.manual_seed(2)
        layers = (WHVILinear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), MeanFieldLinear(8, 1))
        self.model, self.likelihood = nn.Sequential(*layers).double(), Gaussian().double()
        self.interrupt_at = interrupt_at
        self.states: list[float] = []
        self.outputs: list[float] = []
        self.model.register_forward_hook(self.look)

    def look(self, model: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """At each step: the parameters it starts from, and what the noise made of them."""
        if model.training:
            self.states.append(float(sum(p.detach().sum() for p in model.parameters())))
            self.outputs.append(float(output.detach().sum() / len(output)))
            if len(self.states) == self.interrupt_at:
                os.kill(os.getpid(), signal.SIGINT)

    def fit(self, folder: Path, *callbacks: Callback, **options: Any) -> Fit:
        """In two processes."""
        data = torch.ones(ROWS, 3, dtype=torch.float64), torch.arange(ROWS, dtype=torch.float64)
        settings = {"steps": STEPS, "batch_size": 8, "algorithm": Distributed(SVI(1e-2)), **options}
        return fit(self.model, self.likelihood, data, callbacks=[Checkpoint(folder), *callbacks], **settings)

    def told(self, result: Fit) -> Found:
        """All that is left."""
        return {**told(result, self.model, self.likelihood), "states": self.states, "outputs": self.outputs}


def interrupted(folder: Path, rank: int) -> Found:
    """Ctrl-C in the second process, then in a callback of the first, and then to the end."""

    def stop(moment: Moment) -> None:
        raise KeyboardInterrupt

    words = []
    for network, callbacks in ((Noisy(5 * rank), []), (Noisy(), [Every(8, stop)])):
        try:
            network.fit(folder, *callbacks)
        except KeyboardInterrupt as error:
            words.append(str(error))
    network = Noisy()
    return {**network.told(network.fit(folder)), "words": words}


def refused(folder: Path, rank: int) -> list[str]:
    """What is said of calls that cannot be shared."""
    nng = nn.Sequential(MatrixGaussianLinear(3, 1)).double()
    calls = (
        lambda: fit(nng, Gaussian().double(), rows(), steps=1, algorithm=Distributed(NoisyKFAC())),
        lambda: Noisy().fit(folder / "small", batch_size=1),
        lambda: Noisy().fit(folder / f"of {rank}", steps=2) and Noisy().fit(folder / f"of {rank}", steps=4),
    )
    words = []
    for call in calls:
        try:
            call()
        except WhviError as error:
            words.append(f"{type(error).__name__}: {error}")
    return words


def work(folder: Path, rank: int) -> Found:
    """What one of the processes does."""
    found: Found = {}
    dist.init_process_group("gloo", init_method=f"file://{folder / 'group'}", rank=rank, world_size=PROCESSES)
    found["mode"] = mode(True)
    assert dist.is_initialized()  # a group that was there is left
    dist.destroy_process_group()
    found["quiet"] = quiet(True)
    assert not dist.is_initialized()  # and one that was not is ended
    network = Noisy()
    found["whole"] = network.told(network.fit(folder / "whole"))
    found["interrupted"] = interrupted(folder / "interrupted", rank)
    network, seen = Noisy(), []
    result = network.fit(folder / "ended", Every(3, lambda moment: not seen.append(moment.step)))
    found["ended"] = {**network.told(result), "seen": seen}
    found["refused"] = refused(folder, rank)
    return found


def main(folder: Path) -> None:
    """Two copies of this process work together, and this one alone."""
    torch.set_num_threads(1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(PROCESSES)}
    children = []
    for rank in range(PROCESSES):
        number = os.fork()
        if number == 0:
            code = 1
            try:
                os.environ["RANK"] = str(rank)
                (folder / f"{rank}.json").write_text(json.dumps(work(folder, rank)))
                code = 0
            finally:
                if code:
                    sys.excepthook(*sys.exc_info())
                os._exit(code)
        children.append(number)
    alone = {"mode": mode(False), "prior counted twice": mode(False, kl_weight=2.0), "quiet": quiet(False)}
    assert [os.waitpid(number, 0)[1] for number in children] == [0] * PROCESSES
    print(json.dumps([*(json.loads((folder / f"{rank}.json").read_text()) for rank in range(PROCESSES)), alone]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
