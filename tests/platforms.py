"""Run by ``test_platforms.py`` in a fresh process: another system, simulated, on which the library is used.

``python platforms.py SYSTEM FOLDER``: prints ``works`` as its last line; a sentence of warning may come before.
"""

import builtins
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ABSENT = {
    "windows": ("fcntl", "grp", "pwd", "resource", "termios"),
    "bare": ("fcntl", "msvcrt", "resource", "triton"),
}
"""Modules that each system lacks. "bare" has no locks of either kind."""


class Locks:
    """``msvcrt`` for a test: one who holds a file at a time."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        self.calls = 0

    def locking(self, descriptor: int, mode: int, count: int) -> None:
        """Lock a byte."""
        assert (mode, count) == (self.LK_NBLCK, 1)
        os.fstat(descriptor)
        self.calls += 1


def no_process(*_: Any, **__: Any) -> None:
    """There is no compiler, or anything else to run."""
    raise FileNotFoundError("no such program")


def without(names: tuple[str, ...]) -> Callable[..., Any]:
    """``__import__`` that does not find some modules."""
    usual = builtins.__import__

    def find(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] in names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return usual(name, *rest, **more)

    return find


def become(system: str) -> Locks:
    """Take away what a system lacks; torch is there already, and knows nothing of it."""
    locks = Locks()
    for name in ABSENT[system]:
        sys.modules.pop(name, None)
    builtins.__import__ = without(ABSENT[system])
    subprocess.Popen = no_process  # type: ignore[assignment, misc]
    del os.fork
    if system == "windows":
        sys.modules["msvcrt"] = locks  # type: ignore[assignment]
    return locks


def use(folder: Path) -> None:
    """Each way to the disk and back, and a prediction."""
    import whvi
    from whvi.inference import Checkpoint, Progress
    from whvi.io import folder as sealed
    from whvi.likelihoods import Gaussian

    torch.manual_seed(0)
    model = torch.nn.Sequential(whvi.nn.WHVILinear(3, 8), torch.nn.ReLU(), whvi.nn.WHVILinear(8, 1))
    x = torch.randn(20, 3)
    callbacks = [Progress(False), Checkpoint(folder / "Run", 2)]
    whvi.fit(model, Gaussian(), (x, x[:, :1]), steps=4, batch_size=8, callbacks=callbacks)
    assert whvi.predict(model, x, 4, likelihood=Gaussian()).mean.isfinite().all()
    whvi.save_model(model, folder / "Model")
    whvi.save_model(model, folder / "Model")
    whvi.load_model(model, folder / "Model")
    sealed.check(folder / "Model")


def main(system: str, folder: Path) -> None:
    """Import and use the library there."""
    locks = become(system)
    import whvi

    assert whvi.kernel_info().backend in ("native", "fallback")
    if system == "windows":
        import whvi.io.atomic
        import whvi.io.lock

        for module in (whvi.io.atomic, whvi.io.lock, whvi.io.checkpoint):
            module.os = Nt()  # type: ignore[attr-defined]
    use(folder)
    assert locks.calls == (3 if system == "windows" else 0)  # a run, and two models
    print("works")


class Nt:
    """``os`` that says that it is of Windows; pathlib must not believe it."""

    name = "nt"

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
