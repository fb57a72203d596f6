"""Run by ``test_processes.py`` in a fresh process: children of all kinds predict with the model of their parent.

``python processes.py``: prints one line of JSON, by start method whether a child gave the bits of the parent.

A child made by fork has no threads but its own, while GNU's OpenMP, which torch computes with, believes in those of the
parent: any operation of torch that would use two of them waits for ever. So such a child takes one thread.
"""

import json
import multiprocessing

import torch
from torch import Tensor, nn

import whvi
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear

PATIENCE = 120.0


def predicted(model: nn.Module, x: Tensor) -> list[float]:
    """With a kernel that uses two threads where it has them."""
    found: list[float] = whvi.predict(model, x, 16, likelihood=Gaussian(), seed=0).mean.flatten().tolist()
    return found


def main() -> None:
    """The parent has predicted with two threads before it makes children."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = nn.Sequential(WHVILinear(16, 64), nn.ReLU(), WHVILinear(64, 1)).eval()
    x = torch.randn(500, 16)
    here = predicted(model, x)
    found = {}
    for method in multiprocessing.get_all_start_methods():
        settings = {"initializer": torch.set_num_threads, "initargs": (1,)} if method == "fork" else {}
        with multiprocessing.get_context(method).Pool(1, **settings) as pool:
            task = pool.apply_async(predicted, (model, x))
            try:
                found[method] = task.get(PATIENCE) == here
            except multiprocessing.TimeoutError:
                found[method] = False
    print(json.dumps(found))


if __name__ == "__main__":
    main()
