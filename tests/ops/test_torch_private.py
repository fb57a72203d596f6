"""Private names of torch live in one file, and the library is right without any of them."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, autograd, nn, optim
from torch.autograd import forward_ad
from torch.fx import GraphModule

import whvi
from whvi.ops import torch_private

SOURCE = Path(whvi.__file__).parent.parent
OF_PYTHON = {"_replace", "_asdict", "_fields", "_exit"}
"""Private by their name alone."""
MODULES = (nn.Linear(1, 1), nn.Conv2d(1, 1, 1), nn.MultiheadAttention(1, 1), nn.BatchNorm1d(1))
OF_TORCH = {
    name
    for owner in (torch, torch._C, Tensor, autograd.Function, forward_ad, optim.Adam, GraphModule, *MODULES)
    for name in dir(owner)
    if re.fullmatch("_[A-Za-z]\\w*", name)
}
"""Private names that torch has: no others' attributes, and no words to ask for them by, may be called so."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.endswith("__") or name == "_")


def own_names(trees: Iterable[ast.AST]) -> set[str]:
    """The private names that these files define: functions, classes, variables, and attributes that they set."""
    found = set()
    for node in chain.from_iterable(map(ast.walk, trees)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found


def uses(tree: ast.AST, own: set[str]) -> Iterator[str]:
    """Private names of torch in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            yield from filter(is_private, (*str(node.module).split("."), *(alias.name for alias in node.names)))
        elif isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
            yield from (part for path in paths if path[0] == "torch" for part in path if is_private(part))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Del):
            yield from () if node.attr in own else (node.attr,)  # to take from an object what it made itself
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in OF_PYTHON:
            on_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if node.attr not in own or (node.attr in OF_TORCH and not on_own):
                yield node.attr
        elif isinstance(node, ast.Constant) and node.value in OF_TORCH:
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and node.args:
            yield ast.unparse(node)  # to step over what a class of torch does itself


def test_no_other_file_uses_a_private_name_of_torch() -> None:
    files = {
        path: ast.parse(path.read_text())
        for package in ("whvi", "whvi_paper", "whvi_tables")
        for path in (SOURCE / package).rglob("*.py")
        if path.name != "torch_private.py"
    }
    own = own_names(files.values())
    assert len(own) > 1000
    assert [f"{path.relative_to(SOURCE)}: {name}" for path, tree in files.items() for name in uses(tree, own)] == []


@pytest.mark.parametrize(
    "text",
    [
        "from torch.nn.modules.batchnorm import _BatchNorm",
        "from torch._inductor import compile",
        "import torch._dynamo",
        "torch.ops.mkldnn._is_mkldnn_bf16_supported()",
        "super(torch.autograd.Function, function).apply(*args)",
        "del self.objective.logger, self.objective.reducer",
        "parent._modules[name] = child",
        "self._buffers.items()",
        "module._parameters.values()",
        "tensor._version",
        "forward_ad._current_level",
        'getattr(forward_ad, "_current_level", 0)',
        'HOOKS = ("_forward_hooks", "_forward_pre_hooks")',
        'OWN = {nn.Conv2d: ("forward", "_conv_forward")}',
        "plain._reversed_padding_repeated_twice",
        "torch._C._AutoDispatchBelowAutograd()",
    ],
)
def test_a_private_name_is_seen(text: str) -> None:
    assert list(uses(ast.parse(text), {"_version", "_own"}))


@pytest.mark.parametrize("text", ["self._own", "other._own", "super().apply()", "row._replace(a=1)", "import _csv"])
def test_an_own_name_is_none(text: str) -> None:
    assert list(uses(ast.parse(text), {"_version", "_own"})) == []


def test_this_torch_has_all_of_them() -> None:
    assert torch_private.missing() == ()


INDISPENSABLE = "_C._AutoDispatchBelowAutograd"
NAMES = [
    "_C._are_functorch_transforms_active",
    "_C.DispatchKeySet",
    "_C.DispatchKey.CPU",
    "_C._dispatch_keys",
    "_C._is_fwd_grad_enabled",
    "_C._len_torch_dispatch_stack",
    "_C._get_tracing_state",
    "_C._functorch.get_interpreter_stack",
    "_C._functorch.TransformType.Vmap",
    "_C._functorch._unwrap_batched",
    "_C._functorch._add_batch_dim",
    "_functorch.pyfunctorch.retrieve_current_functorch_interpreter",
    "_standard_gamma",
    "_C._FunctionBase",
    "autograd.forward_ad._current_level",
    "ops.mkldnn._is_mkldnn_bf16_supported",
    "Tensor._version",
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
    prediction = whvi.predict(layer, x.detach(), 4, seed=1)
    layer.g.mean.data.add_(1.0)
try:
    prediction.samples()
    raise AssertionError("the model has changed")
except whvi.errors.UnsupportedError:
    pass
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


def test_guards_of_attributes() -> None:
    """What an object may lack: a module counts as hooked, and its forward pass alone is compared."""

    class Bare:
        pass

    bare, layer, attention = cast("nn.Module", Bare()), nn.Linear(2, 2), nn.MultiheadAttention(2, 1)
    assert torch_private.hooked(bare)
    assert not torch_private.hooked(layer)
    layer.register_forward_pre_hook(lambda module, args: None)
    assert torch_private.hooked(layer)
    assert torch_private.runs_as(layer, nn.Linear)
    assert not torch_private.runs_as(layer, nn.Conv2d)
    torch_private.answer_as(layer, attention)
    assert vars(layer)["_qkv_same_embed_dim"] is True
    del attention._qkv_same_embed_dim
    torch_private.answer_as(bare, attention)
    assert vars(bare) == {}
    torch_private.release_processes(cast("nn.parallel.DistributedDataParallel", bare))


def test_without_inductor_torch_compile_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._inductor", None)
    monkeypatch.setattr(torch, "compile", lambda graph, **options: (graph, options))
    graph: Any = object()
    found: Any = torch_private.inductor(graph, [])
    assert found == (graph, {"dynamic": False, "fullgraph": True})


def test_recording_is_apply() -> None:
    """The short way gives what Function.apply gives."""

    class Square(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return 2.0 * ctx.saved_tensors[0] * grad

    for way in (torch_private.apply_eagerly, lambda function, *args: function.apply(*args)):
        x = torch.tensor(3.0, requires_grad=True)
        way(Square, x).backward()
        assert float(x.grad if x.grad is not None else 0.0) == 6.0
