"""Results are those of the model, whatever the threads, the processes and the switches of torch."""

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import whvi
from whvi.inference import Progress
from whvi.likelihoods import Gaussian
from whvi.nn import MeanFieldLinear, WHVIColumn, WHVIConv2d, WHVILinear
from whvi_paper.measured import threads


def trained(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Parameters after some steps, and a prediction."""
    data = x, x.flatten(1).sum(1, keepdim=True).sin()
    whvi.fit(model, Gaussian(), data, steps=4, batch_size=64, callbacks=[Progress(False)])
    prediction = whvi.predict(model, x, 4, likelihood=Gaussian(), seed=0)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]), prediction.variance


def test_one_and_two_threads_give_the_same_bits() -> None:
    """Of layers whose products are those of the kernel; how torch cuts its own matrix products is not promised."""

    def run() -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        return trained(nn.Sequential(WHVILinear(64, 256), nn.Tanh(), WHVILinear(256, 1)), torch.randn(256, 64))

    with threads(1):
        one = run()
    with threads(2):
        two = run()
    assert all(map(torch.equal, one, two))


def test_deterministic_algorithms_are_all_there_is() -> None:
    """``torch.use_deterministic_algorithms(True)`` refuses nothing that the library does, and changes no bit."""

    def run() -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        convolution = nn.Sequential(WHVIConv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        model = nn.Sequential(convolution, MeanFieldLinear(36, 8), nn.ReLU(), WHVILinear(8, 4), WHVIColumn(4, 1))
        return trained(model, torch.randn(20, 1, 8, 8))

    usual = run()
    torch.use_deterministic_algorithms(True)
    try:
        strict = run()
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(map(torch.equal, usual, strict))


def test_children_of_all_kinds_predict_the_same_bits() -> None:
    script = Path(__file__).with_name("processes.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=400, check=True)
    assert json.loads(done.stdout) == dict.fromkeys(multiprocessing.get_all_start_methods(), True)
