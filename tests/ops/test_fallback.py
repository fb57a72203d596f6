"""The pure-torch operators, which run where no kernel does, against the kernel; and how their turn is announced."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import whvi
from whvi.ops import canonical, fallback, layout
from whvi.testing import cover_pairs


@pytest.mark.parametrize(
    ("dtype", "noisy", "needs"),
    cover_pairs([torch.float64, torch.float32, torch.bfloat16], [False, True], [0b11111, 0b00101, 0b01010]),
)
def test_operators_agree(dtype: torch.dtype, noisy: bool, needs: int) -> None:
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    plan = layout.plan([(2, 3, 1), (2, 1, 4), (2, 1, 1), (2, 3, 4), (2, 1, 1), (2, 3, 1)], stack=True)
    x = torch.randn(2, 3, 1, 16).to(dtype)
    s1, g, s2, std = (torch.randn(*s, 16, dtype=compute) for s in ((2, 1, 4), (2, 1, 1), (2, 3, 4), (2, 1, 1)))
    noise = (std, torch.tensor([8, 9])) if noisy else (None, None)
    arguments = (x, s1, g, s2, *noise, 5, list(plan.lead), *plan[1:7], 0.5)
    unit = torch.finfo(dtype).eps
    kernel, twin = torch.ops.whvi.chain(*arguments), canonical.forward(fallback.chain)(*arguments)
    torch.testing.assert_close(kernel, twin, rtol=8 * unit, atol=64 * unit)
    dy = torch.randn_like(kernel)
    pairs = zip(
        torch.ops.whvi.chain_backward(dy, *arguments, needs),
        canonical.backward(fallback.chain_backward)(dy, *arguments, needs),
        strict=True,
    )
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=64 * unit, atol=512 * unit, check_dtype=a.numel() > 0)


def test_normal_gives_the_same_bits() -> None:
    seeds = torch.tensor([1, -2])
    assert torch.equal(torch.ops.whvi.normal(seeds, 10, 500), fallback.normal(seeds, 10, 500))


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("_no_native.txt", "the compiler is on holiday\n", "on holiday"),
        ("_native.abi3.so", "built before a schema changed", "another version of whvi: `make setup`"),
    ],
)
def test_package_without_kernel_says_so_and_works(tmp_path: Path, file: str, content: str, reason: str) -> None:
    """A copy of the package without its library: one warning, the reason in kernel_info, the right numbers."""
    package = tmp_path / "whvi"
    source = Path(whvi.__file__).parent
    shutil.copytree(source, package, ignore=shutil.ignore_patterns("_native*", "csrc", "__pycache__"))
    (package / file).write_text(content)
    code = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always'); import whvi\n"
        "assert len([w for w in seen if 'fallback' in str(w.message)]) == 1, seen\n"
        "import torch; info = whvi.kernel_info()\n"
        f"assert info.backend == 'fallback' and info.isa is None and {reason!r} in info.reason, info\n"
        "p = torch.tensor([1.0, 2.0], requires_grad=True)\n"
        "y = whvi.ops.noisy_chain(torch.ones(3, 2), p, p, p, p, 7); y.sum().backward()\n"
        "print(whvi.__file__, y.tolist(), p.grad.tolist(), whvi.fwht(torch.tensor([1.0, 2.0])).tolist())"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    p = torch.tensor([1.0, 2.0], requires_grad=True)
    y = whvi.ops.noisy_chain(torch.ones(3, 2), p, p, p, p, 7)
    y.sum().backward()
    where, _, rest = done.stdout.partition(" ")
    assert Path(where).parent == package
    values = eval(f"[{rest.replace('] [', '], [')}]".replace("]] [", "]], ["))
    torch.testing.assert_close(torch.tensor(values[0]), y)
    torch.testing.assert_close(torch.tensor(values[1]), p.grad)
    assert values[2] == [3.0, -1.0]


def test_the_transform_is_not_computed_in_half_precision() -> None:
    x = torch.randn(4, 256)
    with torch.autocast("cpu", torch.bfloat16):
        found = fallback.fwht(x, 1.0)
    torch.testing.assert_close(found, fallback.fwht(x, 1.0), rtol=0, atol=0)
