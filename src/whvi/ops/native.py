"""Loads the native kernel, and reports which backend runs and why."""

import ctypes
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torch

from whvi.ops.interface import marks


@dataclass(frozen=True)
class KernelInfo:
    """The backend of the transform on this machine; see :func:`kernel_info`."""

    backend: str
    """"native" or "fallback"."""
    isa: str | None
    """Instruction set of the native kernel: "avx512", "avx2" or "generic"; None for the fallback."""
    reason: str
    """Why this backend runs."""
    threads: int
    torch: str
    triton: str | None
    """Version of Triton, the backend of CUDA tensors; None if it is not installed."""
    library: str | None
    """Path of the native library."""


BUILD_ADVICE = """\
For the kernel, have a C++17 compiler on PATH and torch >= 2.10 in this environment; then, in the checkout of whvi,
    pip install --no-build-isolation --no-deps --force-reinstall .    (or `make native` when .venv was made by make)"""


class _State:
    """The loaded library, set once at import."""

    handle: ctypes.CDLL | None = None
    path: Path | None = None
    reason: str = "the native kernel was not asked for yet"


def load() -> None:
    """Load ``_native*.so`` from the package; without it warn once and use the pure-torch operators."""
    package = Path(__file__).parent.parent
    candidates, note = sorted(package.glob("_native*.so")), package / "_no_native.txt"
    if not candidates:
        why = note.read_text().strip() if note.exists() else "it is not in the package"
        _State.reason = f"no native kernel was built: {why}"
    elif outdated(candidates[0].read_bytes(), package / "csrc"):  # loaded, it would misread its arguments
        _State.reason = f"{candidates[0].name} was built from another version of whvi: `make setup` builds it again"
    else:
        try:
            torch.ops.load_library(str(candidates[0]))
        except OSError as error:
            _State.reason = f"{candidates[0].name} could not be loaded: {error}"
        else:
            _State.handle, _State.path = ctypes.CDLL(str(candidates[0])), candidates[0]
            _State.handle.whvi_isa.restype = ctypes.c_char_p
            _State.reason = "built for this platform; instruction set chosen by cpuid"
            return
    warnings.warn(
        f"whvi: {_State.reason}. The pure-torch fallback runs instead: the same mathematics, slower.\n{BUILD_ADVICE}",
        RuntimeWarning,
        stacklevel=2,
    )


def outdated(library: bytes, csrc: Path) -> bool:
    """True when a library was not built from the schemas and sources that are here now."""
    return any(mark.encode() not in library for mark in marks(csrc))


def instruction_set() -> str | None:
    """Name of the instruction set in use, None without a native kernel."""
    return None if _State.handle is None else _State.handle.whvi_isa().decode()


def use_instruction_set(name: str) -> bool:
    """Switch the process to another instruction set (for tests and benchmarks); False if this machine lacks it."""
    return _State.handle is not None and bool(_State.handle.whvi_use_isa(name.encode()))


def triton_version() -> str | None:
    """Installed version of Triton, None if it is absent."""
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def kernel_info() -> KernelInfo:
    """Which backend computes the transform on CPU, and why.

    >>> kernel_info().backend in ("native", "fallback")
    True
    """
    return KernelInfo(
        backend="fallback" if _State.handle is None else "native",
        isa=instruction_set(),
        reason=_State.reason,
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        triton=triton_version(),
        library=None if _State.path is None else str(_State.path),
    )
