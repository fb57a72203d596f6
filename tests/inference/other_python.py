"""A run that another Python begins, or goes on with: ``python other_python.py FOLDER STEPS``, with torch and whvi."""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from whvi.inference import Checkpoint, EarlyStopping, Progress, fit
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

STEPS = 6
SOURCE = '''
def shrink(x):
    """What the network does between its layers; its byte code differs from one Python to the next."""
    assert x.ndim == 2, "rows of numbers"
    return 0.5 * x
'''


class Network(nn.Module):
    """One Bayesian layer, a function, and a plain layer."""

    def __init__(self, optimize: int) -> None:
        super().__init__()
        names: dict[str, Any] = {"__name__": "other_python"}  # also where this file is the program
        exec(compile(SOURCE, "network.py", "exec", optimize=optimize), names)
        self.first, self.activation, self.last = WHVILinear(3, 4), names["shrink"], nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, 3) -> (N, 1)."""
        y: Tensor = self.last(self.activation(self.first(x)))
        return y


def train(folder: Path, steps: int, optimize: int = 0) -> Network:
    """The run, or what is left of it; the function is compiled with so much optimisation."""
    torch.manual_seed(0)
    model = Network(optimize)
    x = torch.arange(60.0).view(20, 3).cos()
    stopping = EarlyStopping(every=2, samples=2, patience=9, validation=(x, x.sum(1)))
    callbacks = [Progress(False), stopping, Checkpoint(folder, 2)]
    fit(model, Gaussian(), (x, x.sum(1)), steps=steps, batch_size=8, callbacks=callbacks)
    return model


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]))
    print("{}.{}".format(*sys.version_info))
