"""Rows of tensors, tuples and dicts."""

from collections import UserDict
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from whvi import rows
from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError, WhviError


class Two(NamedTuple):
    one: Tensor
    other: Any


A, B = torch.arange(12.0).reshape(4, 3), torch.arange(4)
FORMS: dict[str, Any] = {
    "tensor": A,
    "tuple": (A, B),
    "list": [A, B],
    "named tuple": Two(A, B),
    "dict": {"a": A, "b": B, "flag": True, "absent": None},
    "mapping": UserDict({"a": A, "b": B}),
    "nested": {"a": A, "more": (B, {"c": A})},
}


@pytest.mark.parametrize("name", FORMS)
def test_each_tensor_is_treated_alike(name: str) -> None:
    x = FORMS[name]
    rows.check(x)
    assert rows.count(x) == 4
    for found, wanted in (
        (rows.take(x, slice(1, 3)), lambda t: t[1:3]),
        (rows.take(x, torch.tensor([3, 0])), lambda t: t[[3, 0]]),
        (rows.repeated(x, 3), lambda t: torch.cat([t, t, t])),
        (rows.filled_up(x, 6), lambda t: torch.cat([t, t[:2]])),
        (rows.joined([x, x]), lambda t: torch.cat([t, t])),
    ):
        for one, other in zip(rows.tensors(found), rows.tensors(x), strict=True):
            assert torch.equal(one, wanted(other))
    assert rows.form(rows.take(x, slice(1))) == rows.form(x)
    assert type(rows.take(x, slice(1))) is (dict if name == "mapping" else type(x))


def test_what_is_no_tensor_stays() -> None:
    assert rows.take(FORMS["dict"], slice(2))["flag"] is True
    assert rows.call(lambda a, b, flag, absent: (flag, absent), FORMS["dict"]) == (True, None)
    assert rows.call(lambda a, b: b is B, FORMS["tuple"])


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ({"a": A, "b": B[:3]}, ShapeError, r"x\['a'\] has 4 rows, but x\['b'\] has 3"),
        ((A, torch.tensor(1.0)), ShapeError, r"x\[1\] is a scalar"),
        ({"a": A * float("nan")}, ArgumentError, r"x\['a'\] has NaN or inf in 4 of 4 rows"),
        ({"a": A, "b": B * 1j}, DtypeError, r"x\['b'\] has dtype"),
        ({"a": A, "b": A.numpy()}, InputTypeError, r"x\['b'\] must be a torch.Tensor, got ndarray"),
        ({"a": A, "b": ["text"]}, InputTypeError, r"x\['b'\]\[0\] must be a torch.Tensor, got str"),
        ({"a": A, 1: B}, InputTypeError, "names of arguments, got 1"),
        ({"flag": True}, InputTypeError, "no tensor"),
        ((), InputTypeError, "no tensor"),
        (A.numpy(), InputTypeError, "or a tuple or dict of tensors, got ndarray"),
    ],
    ids=str,
)
def test_bad_inputs_are_named(x: Any, error: type[WhviError], message: str) -> None:
    with pytest.raises(error, match=message):
        rows.check(x)


def test_whole_numbers_are_not_searched_for_nan() -> None:
    rows.check({"tokens": B, "mask": torch.ones(4, 2, dtype=torch.bool)})
