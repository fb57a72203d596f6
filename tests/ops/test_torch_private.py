"""Private names of torch live in one file, and the library is right without any of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import whvi
from whvi.ops import torch_private

SOURCE = Path(whvi.__file__).parent.parent
PRIVATE = re.compile(
    r"torch\._[A-Za-z]|from torch\.?[\w.]*\._|import torch\._|forward_ad\._|\b_current_level\b|\._op\b"
)


def test_no_other_file_uses_a_private_name_of_torch() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for package in ("whvi", "whvi_paper", "whvi_tables")
        for path in (SOURCE / package).rglob("*.py")
        if path.name != "torch_private.py"
        for line in path.read_text().splitlines()
        if PRIVATE.search(line)
    ]
    assert found == []


def test_this_torch_has_all_of_them() -> None:
    assert torch_private.missing() == ()


INDISPENSABLE = "_C._AutoDispatchBelowAutograd"
NAMES = [
    "_C._are_functorch_transforms_active",
    "_C._is_fwd_grad_enabled",
    "_C._len_torch_dispatch_stack",
    "_C._get_tracing_state",
    "_C._functorch.get_interpreter_stack",
    "_C._functorch.TransformType.Vmap",
    "_C._functorch._unwrap_batched",
    "_C._functorch._add_batch_dim",
    "_functorch.pyfunctorch.retrieve_current_functorch_interpreter",
    "_standard_gamma",
]
SCRIPT = """
import importlib.abc, importlib.machinery, sys
import torch

class Patched(importlib.machinery.SourceFileLoader):
    def get_data(self, path):
        data = super().get_data(path)
        return data if path.endswith(".pyc") else data.replace(b'"%s"' % sys.argv[1].encode(), b'"_C._not_there"')
    def path_stats(self, path):
        raise OSError  # no cached byte code

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname != "whvi.ops.torch_private":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        spec.loader = Patched(fullname, spec.origin)
        return spec

if sys.argv[1:]:
    sys.meta_path.insert(0, Finder())
import whvi
from whvi.ops import torch_private
assert torch_private.missing() == (("torch._C._not_there",) if sys.argv[1:] else ())
torch.manual_seed(0)
layer = whvi.nn.WHVILinear(6, 10).double()
x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
y = layer(x)
(y.square().sum() + layer.kl()).backward()
with whvi.sampling(layer, 1):
    stacked = torch.vmap(layer)(x.detach().expand(3, 4, 6))
    slope = torch.func.grad(lambda x: layer(x).square().sum())(x.detach())
parts = [y, x.grad, layer.g.mean.grad, stacked, slope]
print(" ".join(f"{float(part.sum()):.10e}" for part in parts))
"""


FORKS = """
import os, sys, traceback
import torch, torch._dynamo  # loaded once, before the forks; vmap needs the latter

script, *names = sys.argv[1:]
for name in names:
    if os.fork():
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        continue
    for stream in (1, 2):
        os.dup2(os.open(f"{name}.{stream}", os.O_WRONLY | os.O_CREAT), stream)
    sys.argv[1:], code = [] if name == "none" else [name], 0
    try:
        exec(script)
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)
"""
Result = tuple[int, str, str]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Exit code, output and errors of the script, by the name that torch does not have."""
    folder, names = tmp_path_factory.mktemp("absent"), ["none", INDISPENSABLE, *NAMES]
    command = [sys.executable, "-u", "-c", FORKS, SCRIPT, *names]
    codes = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    return {
        name: (int(code), (folder / f"{name}.1").read_text(), (folder / f"{name}.2").read_text())
        for name, code in zip(names, codes, strict=True)
    }


def test_with_every_name_the_script_runs(results: dict[str, Result]) -> None:
    code, output, error = results["none"]
    assert code == 0, error
    assert torch.isfinite(torch.tensor([float(number) for number in output.split()])).all()


@pytest.mark.parametrize("name", NAMES)
def test_guards(name: str, results: dict[str, Result]) -> None:
    """A layer gives the same numbers and gradients, eagerly and under vmap and grad, when a name is absent."""
    code, output, error = results[name]
    assert code == 0, error
    assert output == results["none"][1]


def test_the_one_name_there_is_no_way_around_is_asked_for(results: dict[str, Result]) -> None:
    code, _, error = results[INDISPENSABLE]
    assert code == 1
    assert "UnsupportedError: torch" in error.splitlines()[-1]
