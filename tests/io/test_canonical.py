"""Canonical JSON: one text for each value, and no other text."""

import hashlib
import json
import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whvi.errors import ArgumentError, InputTypeError
from whvi.io import canonical

KEYS = st.text(max_size=4) | st.sampled_from(["$", "$float", "$$float", "$$"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES,
    lambda part: st.lists(part, max_size=4) | st.dictionaries(KEYS, part, max_size=4),
    max_leaves=12,
)


def same(one: object, other: object) -> bool:
    """Equality that tells 1 from 1.0 and True, 0.0 from -0.0, and takes nan for nan."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("d", one) == struct.pack("d", other) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


@given(VALUES)
def test_round_trip(value: object) -> None:
    data = canonical.dump(value)
    assert same(canonical.parse(data), value)
    assert data.isascii()


@given(VALUES)
def test_text_is_standard_json(value: object) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    plain = json.loads(canonical.dump(value), parse_constant=refuse)
    assert json.dumps(plain, sort_keys=True, separators=(",", ":")).encode() == canonical.dump(value)


@given(st.dictionaries(KEYS, LEAVES, max_size=4))
def test_order_of_keys_does_not_matter(value: dict[str, object]) -> None:
    turned = dict(reversed(value.items()))
    assert hashlib.sha256(canonical.dump(turned)).digest() == hashlib.sha256(canonical.dump(value)).digest()


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 5e-324, 0.1 + 0.2, 1.7976931348623157e308])
def test_floats_keep_their_bits(value: float) -> None:
    assert same(canonical.parse(canonical.dump({"x": [value]})), {"x": [value]})


def test_dict_that_looks_like_a_float_stays_a_dict() -> None:
    for value in ({"$float": "inf"}, {"$$float": "nan"}, {"$float": math.inf}):
        assert canonical.parse(canonical.dump(value)) == value


def test_tuple_becomes_a_list() -> None:
    assert canonical.parse(canonical.dump({"betas": (0.9, 0.999)})) == {"betas": [0.9, 0.999]}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b'{"a": 1}',
        b'{"a":1}\n',
        b"\xef\xbb\xbf{}",
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b"NaN",
        b"Infinity",
        b"1e400",
        b"1.0e0",
        b"1e0",
        b"-0",
        b'"\xce\xbb"',
        b'"\xff"',
        b'"\\u0061"',
        b'{"$float":"1.0"}',
        b'{"$float":1}',
        b'{"$float":["inf"]}',
        b'{"$other":1}',
        b'{"$float":"inf","a":1}',
        b"[" * 100_000,
        b"[" * 500 + b"]" * 500,
        b"[" * 66 + b"]" * 66,
        b"1" * 5000,
    ],
)
def test_other_texts_are_refused(text: bytes) -> None:
    with pytest.raises(ArgumentError):
        canonical.parse(text)


def test_depth_has_one_limit_for_both_ways() -> None:
    value: list[object] = []
    for _ in range(canonical.DEPTH):
        value = [value]
    assert canonical.parse(canonical.dump(value)) == value
    with pytest.raises(ArgumentError, match="nested more than 64 deep"):
        canonical.dump([value])


def test_value_that_holds_itself_is_refused() -> None:
    value: dict[str, object] = {}
    value["self"] = value
    with pytest.raises(ArgumentError, match="contains itself"):
        canonical.dump(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [torch.zeros(2)]}, r"value\['a'\]\[0\] is of type Tensor, .* convert it"),
        ({"a": np.float32(1)}, "float32"),
        ({"a": np.int64(1)}, "int64"),
        ({"a": {1, 2}}, "set"),
        ({"a": b"bytes"}, "bytes"),
        ({"a": {0: "int key"}}, r"value\['a'\] has the key 0, but JSON takes strings"),
    ],
)
def test_values_that_would_not_come_back_are_refused(value: object, message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        canonical.dump(value)


def test_integer_that_python_will_not_read_is_refused() -> None:
    with pytest.raises(ArgumentError, match="settings cannot be written as JSON"):
        canonical.dump(10**5000, name="settings")


def test_float_of_numpy_is_a_float() -> None:
    value = canonical.parse(canonical.dump([np.float64(0.1), np.float64("inf")]))
    assert value == [0.1, math.inf]
    assert {type(part) for part in value} == {float}
