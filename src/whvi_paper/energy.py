"""What a call costs: time, CPU time, and energy where Linux shows the processor's own counters (RAPL)."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

POWERCAP = Path("/sys/class/powercap")

Reading = dict[str, tuple[int, int]]
"""Counter -> microjoules, and the value after which it begins again at zero."""


def read(root: Path = POWERCAP) -> Reading:
    """The counters of whole processors; empty where there are none, or this user may not read them.

    The folders ``intel-rapl:0:0`` and the like are parts of a processor, which ``intel-rapl:0`` holds already. AMD's
    counters have the same names.
    """
    found: Reading = {}
    for folder in sorted(root.glob("intel-rapl:*")):
        if folder.name.count(":") > 1:
            continue
        try:
            now, most = (int((folder / name).read_text()) for name in ("energy_uj", "max_energy_range_uj"))
        except (OSError, ValueError):
            continue
        found[folder.name] = now, most
    return found


def joules(before: Reading, after: Reading) -> float | None:
    """What all processors used between two readings; None where there is nothing to tell it from.

    Law: a counter that went past its end once in between makes no difference.

    >>> joules({"intel-rapl:0": (900, 999)}, {"intel-rapl:0": (100, 999)}), joules({}, {})
    (0.0002, None)
    """
    if not before or before.keys() != after.keys():
        return None
    return sum((after[name][0] - now) % (most + 1) for name, (now, most) in before.items()) / 1e6


@dataclass(frozen=True)
class Spent:
    """By a call, in seconds and joules. Energy is that of the whole processor, whoever used it."""

    seconds: float
    cpu_seconds: float
    joules: float | None


def spend(run: Callable[[], object], root: Path = POWERCAP) -> Spent:
    """Call, and say what it cost."""
    before, cpu, start = read(root), time.process_time(), time.perf_counter()
    run()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    return Spent(seconds, cpu_seconds, joules(before, read(root)))


def in_turn(
    contenders: Mapping[str, Callable[[], object]], rounds: Mapping[str, int], root: Path = POWERCAP
) -> dict[str, dict[str, float]]:
    """Medians over rounds, in which contenders take turns: what was spent -> contender -> value.

    Args:
        contenders: calls by name.
        rounds: in how many each one takes part: the first ones.
        root: where the counters are.

    Law: where there are no counters, "joules" is empty.
    """
    spent: dict[str, list[Spent]] = {name: [] for name in contenders}
    for turn in range(max(rounds[name] for name in contenders)):
        for name, run in contenders.items():
            if turn < rounds[name]:
                spent[name].append(spend(run, root))
    return {
        kind: {
            name: float(f"{median(values):.4g}")
            for name, calls in spent.items()
            if (values := [value for call in calls if (value := getattr(call, kind)) is not None])
        }
        for kind in Spent.__dataclass_fields__
    }
