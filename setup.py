"""Build of the native kernel: one shared library, ``whvi/_native.abi3.so``. All other facts are in pyproject.toml.

The library has no Python module inside: ``torch.ops.load_library`` loads it. Its sources are free of torch except
``binding.cpp``, which uses PyTorch's stable ABI only, so one wheel serves every torch >= 2.10 and every Python >= 3.11.

The compiler is called directly, not through distutils, so that the flags are exactly those below: kernel and reference
agree bit for bit only without contraction. An install never fails for want of a kernel: without torch or a C++ compiler
it says so, leaves the reason in ``whvi/_no_native.txt`` and the pure-torch fallback runs. ``WHVI_NO_NATIVE=1`` asks for
that on purpose; ``CXX``, ``CXXFLAGS`` and ``LDFLAGS`` are honoured.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

CSRC = Path("src/whvi/csrc")
INTERFACE = runpy.run_path("src/whvi/ops/interface.py")
HEADERS, SOURCES = ([p for p in INTERFACE["sources"](CSRC) if p.suffix == suffix] for suffix in (".h", ".cpp"))
JOBS = 2
FLAGS = ["-O2", "-std=c++17", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"]
DEFINES = ["-DPy_LIMITED_API=0x030b0000", "-DTORCH_TARGET_VERSION=0x020a000000000000"]  # Python 3.11, PyTorch 2.10

ADVICE = """\
whvi: NO NATIVE KERNEL WAS BUILT: {reason}
The pure-torch fallback will run: the same mathematics, slower.
For the kernel, have a C++17 compiler on PATH and torch >= 2.10 in the environment; then, in the checkout of whvi,
    pip install --no-build-isolation --no-deps --force-reinstall .    (or `make native` when .venv was made by make)
"""


class NoKernel(Exception):
    """Why the kernel cannot be built here."""


def find_compiler() -> list[str]:
    """The C++ compiler as a command: ``$CXX`` when set, else the first usual name on PATH."""
    if os.name == "nt":
        raise NoKernel("the kernel is not built on Windows yet")
    wanted = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    for name in wanted:
        command = shlex.split(name)
        if shutil.which(command[0]):
            return command
    raise NoKernel(f"no C++ compiler found (looked for {', '.join(wanted)})")


def torch_paths() -> tuple[str, list[str], Path]:
    """Version, include folders and library folder of the torch to build against."""
    try:
        import torch
        from torch.utils.cpp_extension import include_paths
    except ImportError as error:
        raise NoKernel(f"torch cannot be imported in the build environment ({error})") from error
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 10):
        raise NoKernel(f"torch {torch.__version__} is older than 2.10, the first with the stable ABI that is used")
    return torch.__version__, include_paths(), Path(torch.__file__).parent / "lib"


def call(command: list[str], what: str) -> None:
    """Run one compiler command, shown; a failure becomes the reason why there is no kernel."""
    print(shlex.join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    sys.stderr.write(done.stdout)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "error" in line] or [f"exit code {done.returncode}"]
        raise NoKernel(f"{what} failed: {errors[0].strip()}")


def build(target: Path) -> None:
    """Compile what is out of date, `JOBS` files at a time, and link it to ``target``."""
    if os.environ.get("WHVI_NO_NATIVE", "0") not in ("", "0"):
        raise NoKernel("WHVI_NO_NATIVE is set")
    compiler = find_compiler()  # before torch: the answer is quicker
    version, includes, libraries = torch_paths()
    system = ["-isystem" + path for path in includes]
    compile_command = [*compiler, *FLAGS, *DEFINES, *system, *shlex.split(os.environ.get("CXXFLAGS", ""))]
    # Objects of another compiler, torch or set of flags are never reused.
    key = hashlib.sha256("\0".join([version, *compile_command]).encode()).hexdigest()[:12]
    folder = Path("build/native") / key
    folder.mkdir(parents=True, exist_ok=True)
    newest_header = max(path.stat().st_mtime for path in HEADERS)
    marks = "".join(INTERFACE["marks"](CSRC))

    def compile_one(source: Path) -> str:
        result, define = folder / f"{source.stem}.o", []
        if source.name == "binding.cpp":  # the marks are in it: new ones, a new object
            result = folder / f"binding-{hashlib.sha256(marks.encode()).hexdigest()[:12]}.o"
            define = [f'-DWHVI_MARKS="{marks}"']
        if not (result.exists() and result.stat().st_mtime > max(newest_header, source.stat().st_mtime)):
            unfinished = result.with_suffix(".tmp.o")
            call([*compile_command, *define, "-c", str(source), "-o", str(unfinished)], f"compiling {source.name}")
            unfinished.replace(result)
        return str(result)

    with ThreadPoolExecutor(JOBS) as pool:
        objects = list(pool.map(compile_one, SOURCES))
    # No rpath: torch is in the process already when the library is loaded.
    link = ["-L" + str(libraries), "-ltorch", "-ltorch_cpu", "-lc10", *shlex.split(os.environ.get("LDFLAGS", ""))]
    unfinished = target.with_suffix(".tmp")
    call([*compiler, "-shared", *objects, *link, "-o", str(unfinished)], "linking")
    unfinished.replace(target)  # at once, so that a process that has the old library open keeps it


class BuildNative(build_ext):
    """``build_ext`` that makes the kernel, or else says loudly why there is none."""

    built = False

    def run(self) -> None:
        target = Path(self.get_ext_fullpath(self.extensions[0].name))
        note = target.with_name("_no_native.txt")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            build(target)
        except NoKernel as why:
            target.unlink(missing_ok=True)  # a kernel of an earlier build would contradict the note
            note.write_text(f"{why}\n")
            rule = "*" * 100
            print(f"\n{rule}\n{ADVICE.format(reason=why)}{rule}\n", file=sys.stderr, flush=True)
        else:
            note.unlink(missing_ok=True)
            self.built = True


class Wheel(bdist_wheel):
    """``bdist_wheel`` that gives a wheel without kernel the tag of a pure one, so that nobody ships it by mistake."""

    def get_tag(self) -> tuple[str, str, str]:
        built = self.get_finalized_command("build_ext").built
        return super().get_tag() if built else ("py3", "none", "any")


setup(
    ext_modules=[
        Extension(
            "whvi._native",
            sources=[str(path) for path in SOURCES],
            depends=[str(path) for path in HEADERS],
            language="c++",
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    cmdclass={"build_ext": BuildNative, "bdist_wheel": Wheel},
)
