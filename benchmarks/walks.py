"""How many files and functions of this repository a call enters: ``python benchmarks/walks.py [SOURCE]``.

SOURCE is the ``src`` of a checkout, this one by default; another version is counted by its own, such as that of
``git worktree add ../old v0.1``. Each walk runs twice, and the second time counts: what is done once is left out. With
``--lines``, lines of Python without blanks, comments and docstrings instead. The table is in docs/architecture.md.
"""

import argparse
import ast
import io
import os
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType

PACKAGES = ("whvi", "whvi_tables", "whvi_paper")
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@contextmanager
def entered(source: Path) -> Iterator[set[CodeType]]:
    """The functions below a folder that are called in a block, in any thread that it starts."""
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        found &= {code for code in found if Path(code.co_filename).is_relative_to(source)}


def layer() -> Callable[[Path], object]:
    """``WHVILinear(x)``."""
    import torch

    from whvi.nn import WHVILinear

    linear, x = WHVILinear(128, 128), torch.randn(8, 128)
    return lambda folder: linear(x)


def steps() -> Callable[[Path], object]:
    """Two steps of ``whvi.fit``."""
    import torch

    import whvi
    from whvi.likelihoods import Gaussian

    model, x = whvi.nn.WHVILinear(8, 1), torch.randn(64, 8)
    return lambda folder: whvi.fit(model, Gaussian(), (x, x.sum(1)), steps=2)


def table() -> Callable[[Path], object]:
    """``whvi fit data.csv``."""
    import numpy as np

    commands = import_module(f"{'whvi_tables' if (SOURCE / 'whvi_tables').exists() else 'whvi.tables'}.commands")

    def run(folder: Path) -> object:
        x = np.random.default_rng(0).normal(size=(100, 3))
        np.savetxt(folder / "data.csv", np.c_[x, x.sum(1)], delimiter=",", header="a,b,c,y", comments="")
        return commands.fit(folder / "data.csv", target="y", out=folder / "model", steps=20, hidden="16", force=True)

    return run


def experiment() -> Callable[[Path], object]:
    """``whvi reproduce uci-regression``, its smallest part."""
    reproduce = import_module("whvi_paper.cli").reproduce

    def run(folder: Path) -> object:
        options = {"only": ["whvi", "yacht"], "backend": "sequential", "processes": 1, "profile": "smoke"}
        return reproduce("uci-regression", results=folder / "records", out=folder / "out", **options)

    return run


def code_lines(path: Path) -> int:
    """Lines with code: no blanks, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    words: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            words.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - words)


def count_walks() -> None:
    """Files and functions of each walk."""
    for walk in (layer, steps, table, experiment):
        call = walk()
        for _ in range(2):
            with (
                tempfile.TemporaryDirectory() as folder,
                Path(os.devnull).open("w", encoding="utf-8") as nowhere,
                redirect_stdout(nowhere),
                redirect_stderr(nowhere),
                entered(SOURCE) as found,
            ):
                call(Path(folder))
        files = {code.co_filename for code in found}
        print(f"{walk.__doc__}: {len(files)} files, {len(found)} functions")


def count_lines() -> None:
    """Lines of code of each package, and of the loop, which was one file in version 0.1."""
    for package in PACKAGES:
        print(f"{package}: {sum(code_lines(path) for path in (SOURCE / package).rglob('*.py')):,} lines")
    for name in ("loop.py", "resuming.py"):
        if (path := SOURCE / "whvi/inference" / name).exists():
            print(f"{name}: {code_lines(path)} lines")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", type=Path, default=Path(__file__).parents[1] / "src")
    parser.add_argument("--lines", action="store_true")
    options = parser.parse_args()
    SOURCE = options.source.resolve()
    sys.path.insert(0, str(SOURCE))
    count_lines() if options.lines else count_walks()
