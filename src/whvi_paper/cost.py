"""What a Bayesian layer costs: the numbers it holds, and the memory of a training step."""

import json
import os
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from whvi.nn import kl


def held(layer: nn.Module) -> list[Tensor]:
    """What a layer keeps: parameters, and buffers such as the roots of a covariance."""
    return [*layer.parameters(), *layer.buffers()]


def training_step(layer: nn.Module, batch: int, size: int) -> Callable[[], None]:
    """Forward, KL and backward of a layer in the middle of a network: its inputs, (batch, size), need gradients too."""
    x, slope = torch.randn(batch, size, requires_grad=True), torch.randn(batch, size)
    leaves = [x, *layer.parameters()]

    def run() -> None:
        torch.autograd.backward((layer(x), kl(layer)), (slope, None))
        for leaf in leaves:
            leaf.grad = None

    return run


def peak(run: Callable[[], object], trace: Path) -> int:
    """The most bytes that a call holds at once, beside those that were there before it.

    Args:
        run: is called twice.
        trace: a file that the profiler may write; it is removed.

    Law: the largest sum of what torch's allocator was asked for and not yet given back.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would tell of its stages
    run()  # what is made once is there from now on
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    profiler.export_chrome_trace(str(trace))
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("name") == "[memory]"]
    trace.unlink()
    events.sort(key=lambda event: float(event["ts"]))
    return max(accumulate((int(event["args"]["Bytes"]) for event in events), initial=0))
