"""Seeds that are functions of names, so that a run resumes without the state of a generator."""

from hashlib import blake2b

import torch

from whvi.arguments import any_whole_number


def mix(seed: int, *words: int | str) -> int:
    """A number of 63 bits for a seed and what it is used for.

    >>> mix(0, "noise", 1) == mix(0, "noise", 1), mix(0, "noise", 1) == mix(0, "noise", 2)
    (True, False)
    """
    seed = any_whole_number("seed", seed)
    return int.from_bytes(blake2b(repr((seed, words)).encode(), digest_size=8).digest()) >> 1


def start_generators(seed: int) -> None:
    """Seed torch's generators for the draws of a step.

    ``torch.manual_seed`` also queues a call for unused accelerators, each time with the call stack as
    text: half a millisecond, which a step on the CPU can save.

    Law: draws equal those after ``torch.manual_seed(seed)``.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
