"""Seeds that are functions of names, so that a run needs no state of a generator to go on."""

from hashlib import blake2b

from whvi.errors import InputTypeError


def mix(seed: int, *words: int | str) -> int:
    """A number of 63 bits for a seed and what it is used for.

    >>> mix(0, "noise", 1) == mix(0, "noise", 1), mix(0, "noise", 1) == mix(0, "noise", 2)
    (True, False)
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputTypeError(f"seed must be an int, got {seed!r}")
    return int.from_bytes(blake2b(repr((seed, words)).encode(), digest_size=8).digest()) >> 1
