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


def run(*absent: str) -> subprocess.CompletedProcess[str]:
    """The script on a torch with all names, or without one."""
    return subprocess.run([sys.executable, "-c", SCRIPT, *absent], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def numbers() -> str:
    """What the script prints where no name is absent."""
    found = run()
    assert found.returncode == 0, found.stderr
    assert torch.isfinite(torch.tensor([float(number) for number in found.stdout.split()])).all()
    return found.stdout


@pytest.mark.parametrize("name", NAMES)
def test_guards(name: str, numbers: str) -> None:
    """A layer gives the same numbers and gradients, eagerly and under vmap and grad, when a name is absent."""
    found = run(name)
    assert found.returncode == 0, found.stderr
    assert found.stdout == numbers


def test_the_one_name_there_is_no_way_around_is_asked_for() -> None:
    found = run(INDISPENSABLE)
    assert found.returncode == 1
    assert "UnsupportedError: torch" in found.stderr.splitlines()[-1]
