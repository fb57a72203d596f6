"""Large tensors come and go in each step of training; their memory need not go with them."""

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
"""What ``mallopt`` calls them."""
_NEVER = -1
_AFTERWARDS = {_MMAP_MAX: 65536, _MMAP_THRESHOLD: 32 * 2**20, _TRIM_THRESHOLD: 64 * 2**20}
"""glibc moves its thresholds up to these while large tensors come and go, but no more once they were set by hand."""


@contextmanager
def kept() -> Iterator[None]:
    """Memory that is freed inside stays with the process, for the next tensor; at the end it goes back to the system.

    Otherwise each tensor of some megabytes is asked of the system anew and given back, and to fill new pages takes
    longer than to compute what is in them. Only glibc is asked; with other libraries nothing changes.

    >>> with kept():
    ...     total = sum(range(4))
    >>> total
    6
    """
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    library = ctypes.CDLL(None)
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        for name, value in _AFTERWARDS.items():
            library.mallopt(name, value)
        library.malloc_trim(0)
