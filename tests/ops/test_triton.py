"""The Triton kernels without a GPU: their results under Triton's interpreter, and their compilation for real GPUs.

The interpreter takes the place of the compiler when TRITON_INTERPRET=1 is set before Triton is imported. Whoever ran
earlier in this process may have imported Triton already, so ``TestInterpreted`` is collected only where the variable is
set, and ``test_under_the_interpreter`` runs it in such a process. To see its tests one by one:

    TRITON_INTERPRET=1 python -m pytest -v tests/ops/test_triton.py

The interpreter cuts bfloat16 off where a GPU rounds it: hence a tolerance of one unit in the last place there.
"""

import importlib.util
import itertools
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from whvi.ops import blockwise, canonical, fallback, reference
from whvi.ops import constants as const

SIZES = (1, 2, 4, 16, 64, 256)
ORDERS = (12, 20, 28, 36, 24, 192, 576)
"""m 2^k with m > 1."""
TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7}
DTYPES = tuple(TOLERANCE)
ALL = 0b11111
ROWS, BLOCKS = 1, 2
USUAL = (ROWS, BLOCKS, 0, BLOCKS, BLOCKS)
"""What x, s1, g, s2 and std each have of their own, when nothing else is said."""
ARCHITECTURES = (80, 90)
NO_COMPILER = 77
"""Exit code of this file as a program where Triton cannot compile for NVIDIA GPUs."""
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)
VERSION = metadata.version("triton")


@pytest.fixture(scope="module")
def backend() -> Any:
    from whvi.ops import triton_backend

    return triton_backend


def assert_near(actual: Tensor, expected: Tensor, units: float = 1.0) -> None:
    """Equal up to a number of units of rounding of the largest element; expected is in float64."""
    assert actual.shape == expected.shape
    if actual.numel():
        bound = units * TOLERANCE[actual.dtype] * max(expected.abs().max().item(), 1e-30)
        assert (actual.double() - expected).abs().max().item() <= bound


def spec_normals(seed: int, index: Tensor) -> Tensor:
    """The definition, one number at a time: int64 ``index`` of any shape to float32 normals."""
    low = 0xFFFFFFFF
    counter = 16 * (index >> 6) + (index & 15)
    c = [counter & low, counter >> 32 & low, torch.zeros_like(index), torch.zeros_like(index)]
    k = [seed & low, seed >> 32 & low]
    for _ in range(const.PHILOX_ROUNDS):
        p, q = const.PHILOX_M1 * c[2], const.PHILOX_M0 * c[0]
        c = [(p >> 32 & low) ^ c[1] ^ k[0], p & low, (q >> 32 & low) ^ c[3] ^ k[1], q & low]
        k = [k[0] + const.PHILOX_W0 & low, k[1] + const.PHILOX_W1 & low]
    word = index >> 4 & 3
    a, b = torch.where(word < 2, c[0], c[2]), torch.where(word < 2, c[1], c[3])
    f = (a >> 1).float() + 0.5
    i = f.view(torch.int32) - const.SQRT_HALF_BITS
    e = ((i >> 23) - 31).float()
    m = ((i & 0x7FFFFF) + const.SQRT_HALF_BITS).view(torch.float32)
    y = (m - 1) / (m + 1)
    q = y * y
    s = e * const.E0 + y * ((const.L2 * q + const.L1) * q + const.L0)
    r = s.double().sqrt().float()  # by way of float64, for torch's float32 root is not always the nearest float
    t = torch.where(b < 1 << 31, b, b - (1 << 32)).float() * 2.0**-31
    q = t * t
    sine = t * (((const.S3 * q + const.S2) * q + const.S1) * q + const.S0)
    cosine = (((const.C4 * q + const.C3) * q + const.C2) * q + const.C1) * q + const.C0
    return torch.where(word % 2 == 0, torch.where(a % 2 == 1, -r, r) * cosine, r * sine)


class Case:
    """Operands of one call in canonical shape, and what float64 and autograd make of them."""

    def __init__(
        self,
        size: int,
        dtype: torch.dtype = torch.float64,
        *,
        noise: bool = True,
        patterns: tuple[int, ...] = USUAL,
        absent: tuple[int, ...] = (),
        offset: int = 64,
        share: bool = True,
        rows: int = 5,
        groups: int = 2,
    ) -> None:
        """Absent: 1 for s1, 3 for s2. Share: all blocks take the same noise."""
        blocks = 2
        self.dtype, self.scale, self.size = dtype, 0.37, size
        self.shape = (groups, rows, blocks, size)
        compute = torch.float64 if dtype == torch.float64 else torch.float32
        self.operands: list[Any] = [
            torch.randn(groups, rows if p & ROWS else 1, blocks if p & BLOCKS else 1, size).to(
                dtype if i == 0 else compute
            )
            for i, p in enumerate(patterns)
        ]
        for i in (*absent, *(() if noise else (4,))):
            self.operands[i] = None
        seeds = [11, -12][:groups]
        noise_blocks = 1 if share else blocks
        self.arguments = (torch.tensor(seeds) if noise else None, offset, rows, blocks, noise_blocks, 1, self.scale)
        index = offset + torch.arange(rows * noise_blocks * size).view(rows, noise_blocks, size)
        self.eps = torch.stack([spec_normals(seed, index) for seed in seeds]).double()
        self.dy = torch.randn(self.shape).to(dtype)

    def truth(self) -> tuple[Tensor, list[Tensor]]:
        """y, and the gradients that the kernels should return when all are asked for."""
        wide: list[Any] = [None if t is None else t.double().requires_grad_() for t in self.operands]
        x, s1, g, s2, std = wide
        matrix = reference.hadamard(self.size)
        sampled = g if std is None else g + std * self.eps
        y = (sampled * ((x if s2 is None else s2 * x) @ matrix)) @ matrix * self.scale
        y = (y if s1 is None else s1 * y).expand(self.shape)
        present = [t for t in wide if t is not None]
        grads = iter(torch.autograd.grad(y, present, self.dy.double()))
        return y.detach(), [torch.zeros(0) if t is None else next(grads) for t in wide]

    def check(self, backend: Any) -> tuple[Tensor, ...]:
        """Compare both passes of the backend with the truth; returns its gradients."""
        y, expected = self.truth()
        actual = backend.chain(*self.operands, *self.arguments)
        assert actual.dtype == self.dtype
        assert_near(actual, y, units=8)
        grads = self.backward(backend)
        for operand, grad, true_grad in zip(self.operands, grads, expected, strict=True):
            assert operand is None or grad.dtype == operand.dtype
            assert_near(grad, true_grad, units=8)
        return grads

    def backward(self, backend: Any, needs: int = ALL) -> tuple[Tensor, ...]:
        grads: tuple[Tensor, ...] = backend.chain_backward(self.dy, *self.operands, *self.arguments, needs)
        return grads


class TestInterpreted:
    __test__ = INTERPRETED

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("size", [*SIZES, 1024, *ORDERS])
    def test_fwht_is_the_hadamard_product(self, backend: Any, size: int, dtype: torch.dtype) -> None:
        x = torch.randn(3, 5, size, dtype=torch.float64).to(dtype)
        y = backend.fwht(x, 0.3)
        assert y.dtype == dtype
        assert_near(y, x.double() @ reference.hadamard(size) * 0.3, units=4)
        if dtype != torch.bfloat16 and size not in ORDERS:
            assert torch.equal(y, reference.butterflies(x, 0.3))

    @pytest.mark.parametrize("size", [12, 24, 96, 576])
    def test_fwht_of_long_lines_of_other_orders(self, backend: Any, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
        monkeypatch.setattr(backend, "_one_program", lambda x: False)
        monkeypatch.setattr(backend, "_PASS", 4)
        x = torch.randn(3, size)
        expected = x.double() @ reference.hadamard(size) * 0.3
        backend.fwht_out(x, 0.3, x)
        assert_near(x, expected, units=4)

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("size", [8, 16, 64, 256])
    def test_fwht_of_lines_too_long_for_one_program(
        self, backend: Any, monkeypatch: pytest.MonkeyPatch, size: int, dtype: torch.dtype
    ) -> None:
        monkeypatch.setattr(backend, "_one_program", lambda x: False)
        monkeypatch.setattr(backend, "_PASS", 4)
        x = torch.randn(3, size, dtype=torch.float64).to(dtype)
        expected = reference.butterflies(x, 0.3)
        if dtype == torch.bfloat16:
            assert_near(backend.fwht(x, 0.3), expected.double())
        else:
            assert torch.equal(backend.fwht(x, 0.3), expected)
            backend.fwht_out(x, 0.3, x)
            assert torch.equal(x, expected)

    def test_fwht_switches_to_passes_by_itself(self, backend: Any) -> None:
        x = torch.randn(1, 2**16)
        assert torch.equal(backend.fwht(x, 1.0), reference.butterflies(x))

    def test_fwht_takes_strided_input_in_place_output_and_no_rows(self, backend: Any) -> None:
        x = torch.randn(16, 8).T
        expected = reference.butterflies(x)
        y = backend.fwht(x, 1.0)
        assert y.is_contiguous()
        assert torch.equal(y, expected)
        x = x.contiguous()
        backend.fwht_out(x, 1.0, x)
        assert torch.equal(x, expected)
        assert backend.fwht(torch.zeros(0, 8), 1.0).shape == (0, 8)

    @pytest.mark.parametrize(
        "x", [torch.zeros(3), torch.zeros(2, 0), torch.zeros(()), torch.zeros(4, dtype=torch.int64)]
    )
    def test_fwht_refuses(self, backend: Any, x: Tensor) -> None:
        with pytest.raises(RuntimeError, match="an order"):
            backend.fwht(x, 1.0)

    @pytest.mark.parametrize("offset", [0, 64, 7, 2**40, 2**40 + 100])
    @pytest.mark.parametrize("numel", [1, 100, 5000])
    def test_normals_have_the_bits_of_the_specification(self, backend: Any, offset: int, numel: int) -> None:
        seeds = [0, 5, -7, 2**62 + 12345]
        normals = backend.normal(torch.tensor(seeds), offset, numel)
        expected = torch.stack([spec_normals(seed, torch.arange(offset, offset + numel)) for seed in seeds])
        assert normals.dtype == torch.float32
        assert torch.equal(normals.view(torch.int32), expected.view(torch.int32))

    def test_normals_of_nothing(self, backend: Any) -> None:
        assert backend.normal(torch.tensor([1, 2]), 0, 0).shape == (2, 0)
        assert backend.normal(torch.zeros(0, dtype=torch.int64), 0, 3).shape == (0, 3)

    @pytest.mark.parametrize("noise", [False, True])
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("size", [1, 4, 256, 12, 40, 192])
    def test_chain_and_gradients(self, backend: Any, size: int, dtype: torch.dtype, noise: bool) -> None:
        Case(size, dtype, noise=noise, groups=1).check(backend)

    @pytest.mark.parametrize("noise", [False, True])
    @pytest.mark.parametrize(("operand", "pattern"), list(itertools.product(range(5), range(4))))
    def test_chain_broadcasts(self, backend: Any, operand: int, pattern: int, noise: bool) -> None:
        """Each operand in each pattern, while the others run through all of theirs."""
        others = [(operand + pattern + i) % 4 for i in range(5)]
        others[operand] = pattern
        share, groups = pattern % 2 == 0, 1 + noise
        Case(4, noise=noise, patterns=tuple(others), share=share, offset=3, groups=groups).check(backend)

    @pytest.mark.parametrize("noise", [False, True])
    @pytest.mark.parametrize("absent", [(1,), (3,), (1, 3)])
    def test_chain_without_scales(self, backend: Any, absent: tuple[int, ...], noise: bool) -> None:
        Case(8, absent=absent, noise=noise).check(backend)

    @pytest.mark.parametrize("offset", [0, 64, 10])
    @pytest.mark.parametrize("share", [False, True])
    @pytest.mark.parametrize("size", [64, 36, 192])
    def test_chain_draws_its_own_numbers(self, backend: Any, offset: int, share: bool, size: int) -> None:
        Case(size, offset=offset, share=share, rows=3).check(backend)

    def test_float32_chain_has_the_bits_of_the_reference(self, backend: Any) -> None:
        case = Case(64, torch.float32)
        x, s1, g, s2, std = case.operands
        expected = reference.chain(x, s1, g + std * case.eps.float(), s2, case.scale)
        assert torch.equal(backend.chain(*case.operands, *case.arguments), expected.expand(case.shape))

    def test_only_what_is_needed(self, backend: Any) -> None:
        case = Case(4, groups=1)
        everything = case.backward(backend)
        for needs in (0, 1, 2, 4, 8, 16, 0b01001, 0b10110):
            for i, (grad, whole) in enumerate(zip(case.backward(backend, needs), everything, strict=True)):
                assert torch.equal(grad, whole) if needs >> i & 1 else grad.shape == (0,)

    @pytest.mark.parametrize("patterns", [USUAL, (0, ROWS, ROWS | BLOCKS, ROWS, 0)])
    def test_many_rows_are_summed_in_chunks(
        self, backend: Any, monkeypatch: pytest.MonkeyPatch, patterns: tuple[int, ...]
    ) -> None:
        monkeypatch.setattr(backend, "_TILE", 16)
        monkeypatch.setattr(backend, "_PROGRAMS", 8)
        # Five tiles of two rows in two chunks of three: the last row stands alone.
        case = Case(8, rows=9, patterns=patterns, noise=False)
        for first, second in zip(case.check(backend), case.backward(backend), strict=True):
            assert torch.equal(first, second)

    @pytest.mark.parametrize("noise", [False, True])
    @pytest.mark.parametrize("absent", [(), (1, 3)])
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
    def test_chain_of_lines_too_long_for_one_program(
        self, backend: Any, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, absent: tuple[int, ...], noise: bool
    ) -> None:
        monkeypatch.setattr(backend, "_one_program", lambda x: False)
        monkeypatch.setattr(backend, "_PASS", 4)
        Case(16, dtype, noise=noise, absent=absent).check(backend)

    @pytest.mark.parametrize("long", [False, True])
    @pytest.mark.parametrize("noise", [(5, 2, 1, 1), (5, 2, 3, 2), (5, 2, 1, 2), (5, 1, 1, 1)])
    def test_sums_are_those_of_the_fallback(
        self, backend: Any, monkeypatch: pytest.MonkeyPatch, noise: tuple[int, ...], long: bool
    ) -> None:
        """Two terms, three columns, two blocks; noise for each term, each of all, a mixture, or one for all."""
        if long:
            monkeypatch.setattr(backend, "_one_program", lambda x: False)
        shapes = ((2, 5, 1, 3, 1), (2, 1, 2, 3, 2), (2, 1, 2, 1, 1), (2, 1, 2, 3, 2), (2, 1, 2, 1, 1))
        operands = [torch.randn(*shape, 16, dtype=torch.float64) for shape in shapes]
        rest = (torch.tensor([3, -4]), 5, canonical.Sizes(5, 2, 3, 2, noise), 0.37)
        expected = fallback.chain(*operands, *rest)
        torch.testing.assert_close(blockwise.forward(backend.chain)(*operands, *rest), expected)
        dy = torch.randn_like(expected)
        found = blockwise.backward(backend.chain_backward)(dy, *operands, *rest, ALL)
        torch.testing.assert_close(found, fallback.chain_backward(dy, *operands, *rest, ALL))

    def test_no_rows(self, backend: Any) -> None:
        case = Case(4, rows=0)
        assert backend.chain(*case.operands, *case.arguments).shape == case.shape
        for grad, operand in zip(case.backward(backend), case.operands, strict=True):
            assert torch.equal(grad, torch.zeros_like(operand))


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start Python in a process that can import what this one can."""
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment = {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **variables}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(INTERPRETED, reason="this process interprets already")
def test_under_the_interpreter() -> None:
    if tuple(map(int, VERSION.split(".")[:2])) < (3, 7):
        pytest.skip(f"the interpreter of Triton {VERSION} does not work with the NumPy of today")
    result = run("-m", "pytest", "-q", "-p", "no:cacheprovider", f"{__file__}::TestInterpreted", TRITON_INTERPRET="1")
    assert result.returncode == 0, result.stdout + result.stderr


def test_kernels_compile_for_gpus(tmp_path: Path) -> None:
    """This file as a program compiles what the operators would launch."""
    result = run("-W", "ignore", __file__, TRITON_CACHE_DIR=str(tmp_path))
    if result.returncode == NO_COMPILER:
        pytest.skip(result.stdout.strip())
    assert result.returncode == 0, result.stdout + result.stderr
    facts = [json.loads(line) for line in result.stdout.splitlines()]
    kernels = {"fwht_kernel", "normal_kernel", "chain_kernel", "chain_backward_kernel"}
    assert {(fact["kernel"], fact["arch"]) for fact in facts} == set(itertools.product(kernels, ARCHITECTURES))
    for fact in facts:
        assert fact["cubin"] > 0
        assert fact["dense"] or not fact["fma.rn.f32"], "a product and a sum were contracted"
        assert not fact[".approx"]
        assert fact["sqrt.rn."] == fact["div.rn."] == fact["noise"]
        assert fact["cvt.rn.bf16"] or not fact["bf16"]


class _Driver:
    """Stands in for the GPUs: enough for Triton to find out what to compile for."""

    architecture = 80

    def get_current_device(self) -> int:
        return self.architecture

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.architecture, 32)


def _compile(kernel: Any, programs: int, *arguments: Any, on: Tensor, **meta: Any) -> None:
    """A launch that stops before the kernel runs, and prints what was compiled."""
    assembly = kernel.warmup(*arguments, **meta, enable_fp_fusion=False, grid=(programs,)).asm
    fact = {"kernel": kernel.__name__, "arch": _Driver.architecture, "cubin": len(assembly["cubin"])}
    tensors = [t for part in arguments for t in (part if isinstance(part, tuple) else [part]) if isinstance(t, Tensor)]
    fact["noise"] = any(t.dtype == torch.int64 for t in tensors)  # only seeds are integers
    fact["bf16"] = tensors[0].dtype == torch.bfloat16  # the first is what the kernel writes
    fact["dense"] = meta.get("LOG_M", 0) > 0  # a product of matrices contracts, with factors of 1 and -1
    signs = ("fma.rn.f32", ".approx", "sqrt.rn.", "div.rn.", "cvt.rn.bf16")
    print(json.dumps(fact | {sign: sign in assembly["ptx"] for sign in signs}))


def _compile_all() -> int:
    from triton.backends import backends
    from triton.runtime import driver

    if "nvidia" not in backends:
        print("this Triton has no compiler for NVIDIA GPUs")
        return NO_COMPILER
    from whvi.ops import triton_backend

    backend: Any = triton_backend
    backend._launch = _compile
    driver.set_active(_Driver())
    for architecture in ARCHITECTURES:
        _Driver.architecture = architecture
        for size in (64, 12, 768):
            backend.fwht(torch.zeros(8, size), 1.0)
        backend.normal(torch.tensor([1]), 0, 100)
        for case in (Case(64, torch.float32), Case(16, torch.bfloat16, noise=False), Case(192, torch.float32)):
            backend.chain(*case.operands, *case.arguments)
            case.backward(backend)
    return 0


if __name__ == "__main__":
    sys.exit(_compile_all())
