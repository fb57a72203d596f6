"""Memory that is freed in training stays with the process, and afterwards goes back."""

import platform
import resource
from pathlib import Path

import pytest
import torch

from whvi_paper.images import memory

MEGABYTES = 64


def resident() -> float:
    """Megabytes that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep memory")
def test_freed_memory_stays_inside_and_goes_back_after() -> None:
    with memory.kept():
        full = torch.ones(MEGABYTES * 2**18)
        before = resident()
        del full
        inside = resident()
    assert inside > before - MEGABYTES / 2
    assert resident() < inside - MEGABYTES / 2


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no ``mallopt``."""
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: pytest.fail("asked"))
    with memory.kept():
        pass
