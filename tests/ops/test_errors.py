"""Bad input: one table, and what the error says."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import whvi
from whvi.ops import chain, fwht, noisy_bias, noisy_chain, normal

x, p = torch.ones(3, 8), torch.ones(8)
meta = torch.ones(8, device="meta")

BAD: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "not a power of two": (lambda: fwht(torch.ones(3, 6)), ValueError, r"size 6.*whvi\.pad.*8"),
    "integers": (lambda: fwht(torch.ones(3, 8, dtype=torch.int64)), TypeError, "torch.int64"),
    "complex": (lambda: fwht(torch.ones(8, dtype=torch.complex64)), TypeError, "torch.complex64"),
    "boolean": (lambda: fwht(torch.ones(8, dtype=torch.bool)), TypeError, "torch.bool"),
    "an array": (lambda: fwht(np.ones(8)), TypeError, "ndarray.*as_tensor"),
    "a list": (lambda: fwht([1.0, 2.0]), TypeError, "list"),
    "None": (lambda: fwht(None), TypeError, "NoneType"),
    "a scalar": (lambda: fwht(torch.tensor(1.0)), ValueError, "scalar"),
    "an empty last axis": (lambda: fwht(torch.ones(3, 0)), ValueError, "empty"),
    "a scale that is no number": (lambda: fwht(x, scale="2"), TypeError, "str"),
    "with gradient, not a power of two": (lambda: fwht(torch.ones(6, requires_grad=True)), ValueError, "size 6"),
    "out of another shape": (lambda: fwht(x, out=torch.empty(2, 8)), ValueError, r"\(2, 8\).*\(3, 8\)"),
    "out of another dtype": (lambda: fwht(x, out=torch.empty(3, 8, dtype=torch.float64)), TypeError, "float64"),
    "out on another device": (lambda: fwht(x, out=torch.empty(3, 8, device="meta")), ValueError, "meta"),
    "out with gaps": (lambda: fwht(x, out=torch.empty(3, 16)[:, ::2]), ValueError, "contiguous"),
    "out that overlaps x": (lambda: _overlap(), ValueError, "shares memory"),
    "out under autograd": (lambda: fwht(x.clone().requires_grad_(), out=torch.empty(3, 8)), ValueError, "gradients"),
    "out that is no tensor": (lambda: fwht(x, out=np.ones((3, 8))), TypeError, "ndarray"),
    "chain: x of the wrong size": (lambda: chain(torch.ones(3, 7), None, torch.ones(7), None), ValueError, "size 7"),
    "chain: g of another size": (lambda: chain(x, p, torch.ones(4), p), ValueError, r"g has shape \(4,\).*8"),
    "chain: s1 of another size": (lambda: chain(x, torch.ones(16), p, p), ValueError, "s1"),
    "chain: s2 of another dtype": (lambda: chain(x, p, p, p.double()), TypeError, "s2.*float64"),
    "chain: g of integers": (lambda: chain(x, p, p.long(), p), TypeError, "g.*int64"),
    "chain: g absent": (lambda: chain(x, p, None, p), TypeError, "g.*NoneType"),
    "chain: g an array": (lambda: chain(x, p, np.ones(8), p), TypeError, "g.*ndarray"),
    "chain: x an array": (lambda: chain(np.ones((3, 8)), p, p, p), TypeError, "x.*ndarray"),
    "chain: devices differ": (lambda: chain(x, p, meta, p), ValueError, "g is on meta"),
    "chain: shapes do not broadcast": (lambda: chain(x, p, torch.ones(2, 8), p), ValueError, r"\(3,\).*\(2,\)"),
    "chain: a scale that is no number": (lambda: chain(x, p, p, p, scale="1"), TypeError, "scale.*str"),
    "noise: log_std of another size": (lambda: noisy_chain(x, p, p, torch.ones(2), p, 0), ValueError, "log_std"),
    "noise: seed a float": (lambda: noisy_chain(x, p, p, p, p, 0.5), TypeError, "seed.*float"),
    "noise: seed of another dtype": (lambda: noisy_chain(x, p, p, p, p, torch.tensor(1.0)), TypeError, "seed.*float32"),
    "noise: seed too large": (lambda: noisy_chain(x, p, p, p, p, 2**64), ValueError, "64 bits"),
    "noise: seed of one element": (lambda: noisy_chain(x, p, p, p, p, torch.tensor([1])), ValueError, "scalar"),
    "noise: seed on another device": (
        lambda: noisy_chain(x, p, p, p, p, torch.empty((), dtype=torch.int64, device="meta")),
        ValueError,
        "seed is on meta.*draw_seed",
    ),
    "noise: offset too large": (lambda: noisy_chain(x, p, p, p, p, 0, 2**63), ValueError, "offset"),
    "noise: shape a number": (lambda: noisy_chain(x, p, p, p, p, 0, noise_shape=3), TypeError, "noise_shape.*3"),
    "noise: negative shape": (lambda: noisy_chain(x, p, p, p, p, 0, noise_shape=(-1,)), ValueError, "noise_shape"),
    "normal: integers": (lambda: normal(0, 0, (3,), dtype=torch.int64), TypeError, "int64"),
    "normal: shape of floats": (lambda: normal(0, 0, (2.5,)), TypeError, "2.5"),
    "a learned scale": (lambda: fwht(x, scale=torch.tensor(2.0)), TypeError, "multiply the result"),
    "chain: a learned scale": (lambda: chain(x, p, p, p, scale=torch.tensor(2.0)), TypeError, "multiply the result"),
    "chain: g of another size, no rows": (
        lambda: chain(x[:0], None, torch.ones(0, 4), None),
        ValueError,
        "g has shape",
    ),
    "chain: s1 of size one, mixed axes": (
        lambda: chain(torch.ones(2, 1, 4, 8), torch.ones(3, 1, 1), torch.ones(2, 1, 1, 8), None),
        ValueError,
        "s1 has shape",
    ),
    "noise: offset negative": (lambda: noisy_chain(x, p, p, p, p, 0, -1), ValueError, "offset.*-1"),
    "noise: shape does not broadcast": (
        lambda: noisy_chain(x, p, p, p, p, 0, noise_shape=(2,)),
        ValueError,
        "broadcast",
    ),
    "normal: offset a float": (lambda: normal(0, 1.5, (3,)), TypeError, "offset"),
    "normal: negative shape": (lambda: normal(0, 0, (-3,)), ValueError, "-3"),
    "bias: y an array": (lambda: noisy_bias(np.ones((3, 8)), p, p, 0), TypeError, "y.*ndarray"),
    "bias: y of integers": (lambda: noisy_bias(x.long(), p, p, 0), TypeError, "y.*int64"),
    "bias: y a scalar": (lambda: noisy_bias(x[0, 0], p, p, 0), ValueError, r"y has shape \(\)"),
    "bias: y of empty rows": (lambda: noisy_bias(x[:, :0], p[:0], p[:0], 0), ValueError, r"y has shape \(3, 0\)"),
    "bias: mean of another size": (lambda: noisy_bias(x, p[:1], p, 0), ValueError, r"mean has shape \(1,\).*y, 8"),
    "bias: mean a row": (lambda: noisy_bias(x, p[None], p, 0), ValueError, r"mean has shape \(1, 8\).*\(8,\)"),
    "bias: log_std of another size": (lambda: noisy_bias(x, p, torch.ones(9), 0), ValueError, "log_std has shape"),
    "bias: log_std of another dtype": (lambda: noisy_bias(x, p, p.double(), 0), TypeError, "log_std.*float64.*float32"),
    "bias: log_std absent": (lambda: noisy_bias(x, p, None, 0), TypeError, "log_std.*NoneType"),
    "bias: devices differ": (lambda: noisy_bias(x, meta, p, 0), ValueError, "mean is on meta.*y"),
    "bias: seed on another device": (
        lambda: noisy_bias(x, p, p, torch.empty((), dtype=torch.int64, device="meta")),
        ValueError,
        "seed is on meta.*draw_seed",
    ),
    "bias: seed of one element": (lambda: noisy_bias(x, p, p, torch.tensor([1])), ValueError, "scalar"),
    "bias: offset negative": (lambda: noisy_bias(x, p, p, 0, -1), ValueError, "offset.*-1"),
    "pad: an array": (lambda: whvi.pad(np.ones(3)), TypeError, "ndarray"),
    "pad: an empty axis": (lambda: whvi.pad(torch.ones(3, 0)), ValueError, r"\(3, 0\)"),
}


def _overlap() -> object:
    flat = torch.ones(40)
    return fwht(flat[:32], out=flat[8:])


@pytest.mark.parametrize(("call", "builtin", "message"), BAD.values(), ids=BAD.keys())
def test_error_says_what_came_and_what_was_wanted(
    call: Callable[[], object], builtin: type[Exception], message: str
) -> None:
    with pytest.raises(whvi.WhviError, match=message) as caught:
        call()
    assert isinstance(caught.value, builtin)


def test_arguments_are_unchanged_after_an_error() -> None:
    kept = x.clone()
    with pytest.raises(whvi.WhviError):
        fwht(x, out=torch.empty(1))
    assert torch.equal(x, kept)
