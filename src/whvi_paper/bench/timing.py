"""Ratios that can be trusted on a busy machine: contenders interleaved in one process, medians compared."""

import time
from collections.abc import Callable, Mapping
from statistics import median

WARM_UP = 3
"""Calls that are not counted, where each is measured for itself."""


def interleaved(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int = 15, slice_ms: float = 2.0
) -> dict[str, float]:
    """Median seconds per call of each contender.

    Every round runs each contender for about ``slice_ms``, in turn: a slow moment of the machine hits all alike.
    """
    repeats = {name: _repeats(run, slice_ms / 1e3) for name, run in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                run()
            times[name].append((time.perf_counter() - start) / repeats[name])
    return {name: median(values) for name, values in times.items()}


def single_calls(contenders: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, list[float]]:
    """Seconds of so many calls of each contender, in turn: what a distribution is made of, warm-up apart."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for repetition in range(-WARM_UP, repetitions):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if repetition >= 0:
                times[name].append(time.perf_counter() - start)
    return times


def _repeats(run: Callable[[], object], seconds: float) -> int:
    """Calls that fill a time slice; also the warm-up."""
    count, spent = 0, 0.0
    start = time.perf_counter()
    while spent < seconds / 2 or count < 3:
        run()
        count += 1
        spent = time.perf_counter() - start
    return max(1, round(count * seconds / spent))
