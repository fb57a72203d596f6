"""Attention with Bayesian projections: torch's own, with their weights."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.convert import BayesianAttention, bayesianize, to_dense
from whvi.errors import DtypeError, ShapeError
from whvi.testing import cover_pairs


def pair(**options: Any) -> tuple[BayesianAttention, nn.MultiheadAttention]:
    """A Bayesian attention and the dense one of its mean, with biases that are not zero."""
    dense = nn.MultiheadAttention(32, 4, dtype=torch.float64, **options)  # type: ignore[arg-type]
    for name, parameter in dense.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    attention = bayesianize(dense, draws="example").model
    merged = to_dense(attention)
    assert isinstance(attention, BayesianAttention)
    assert isinstance(merged, nn.MultiheadAttention)
    return attention, merged


def inputs(batch_first: bool, kdim: int = 32, vdim: int = 32) -> tuple[Tensor, Tensor, Tensor]:
    """Queries (3, 5, 32), keys and values (3, 7, ...)."""
    parts = [torch.randn(3, n, d, dtype=torch.float64) for n, d in ((5, 32), (7, kdim), (7, vdim))]
    query, key, value = (part if batch_first else part.transpose(0, 1) for part in parts)
    return query, key, value


PADDING = torch.tensor([[False] * 7, [False] * 4 + [True] * 3, [False] * 6 + [True]])
CAUSAL = torch.ones(5, 7, dtype=torch.bool).triu(3)


MASKS: dict[str, dict[str, Tensor]] = {
    "none": {},
    "padding": {"key_padding_mask": PADDING},
    "causal": {"attn_mask": CAUSAL},
    "numbers": {"attn_mask": torch.randn(5, 7, dtype=torch.float64)},
    "both": {"attn_mask": CAUSAL.expand(12, 5, 7), "key_padding_mask": PADDING},
}
OPTIONS: list[dict[str, Any]] = [{}, {"batch_first": True}, {"kdim": 16, "vdim": 24}, {"bias": False}]


@pytest.mark.parametrize(("options", "mask", "need_weights"), cover_pairs(OPTIONS, list(MASKS), (True, False)), ids=str)
def test_the_mean_is_torchs_attention(options: dict[str, Any], mask: str, need_weights: bool) -> None:
    masks = MASKS[mask]
    attention, merged = pair(**options)
    batch = inputs(bool(options.get("batch_first")), int(options.get("kdim", 32)), int(options.get("vdim", 32)))
    with whvi.mean_mode(attention):
        output, weights = attention(*batch, need_weights=need_weights, **masks)
    expected, expected_weights = merged(*batch, need_weights=need_weights, **masks)
    torch.testing.assert_close(output, expected, rtol=1e-10, atol=1e-10)
    assert (weights is None) == (expected_weights is None)
    if weights is not None:
        torch.testing.assert_close(weights, expected_weights, rtol=1e-10, atol=1e-10)


def test_a_hint_that_a_mask_is_causal_changes_nothing() -> None:
    attention, merged = pair()
    x, mask = inputs(False)[0], torch.ones(5, 5, dtype=torch.bool).triu(1)
    for need_weights in (True, False):
        options: dict[str, Any] = {"attn_mask": mask, "is_causal": True, "need_weights": need_weights}
        with whvi.mean_mode(attention):
            output, _ = attention(x, x, x, **options)
        torch.testing.assert_close(output, merged(x, x, x, **options)[0], rtol=1e-10, atol=1e-10)


def test_weights_of_each_head_and_one_sequence() -> None:
    attention, merged = pair()
    query, key, value = (x[:, 0] for x in inputs(False))
    with whvi.mean_mode(attention):
        found = attention(query, key, value, average_attn_weights=False)
    for a, b in zip(found, merged(query, key, value, average_attn_weights=False), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    with pytest.raises(ShapeError, match="three axes"):
        attention(query[None], key, value)
    with pytest.raises(ShapeError, match="pass the mask"):
        attention(query, key, value, is_causal=True)


@pytest.mark.parametrize(
    ("name", "mask", "error", "match"),
    [
        ("key_padding_mask", torch.zeros(7, dtype=torch.bool), ShapeError, r"shape \(3, 7\), got \(7,\)"),
        ("key_padding_mask", torch.zeros(1, 7, dtype=torch.bool), ShapeError, r"shape \(3, 7\), got \(1, 7\)"),
        (
            "key_padding_mask",
            torch.zeros(3, 7, dtype=torch.int64),
            DtypeError,
            r"bool or floating point, got torch\.int64",
        ),
        ("attn_mask", torch.zeros(1, 7), ShapeError, r"shape \(5, 7\) or \(12, 5, 7\), got \(1, 7\)"),
        ("attn_mask", torch.zeros(4, 5, 7), ShapeError, r"\(12, 5, 7\), got \(4, 5, 7\)"),
        ("attn_mask", torch.zeros(5, 7, dtype=torch.uint8), DtypeError, r"bool or floating point, got torch\.uint8"),
    ],
)
def test_masks_that_torch_refuses(name: str, mask: Tensor, error: type[Exception], match: str) -> None:
    attention, merged = pair()
    with pytest.raises(error, match=match):
        attention(*inputs(False), **{name: mask})
    with pytest.raises((AssertionError, RuntimeError)):
        merged(*inputs(False), **{name: mask})


def test_masks_of_one_sequence() -> None:
    attention, merged = pair()
    one = [x[:, 0] for x in inputs(False)]
    for options in ({"key_padding_mask": PADDING[1]}, {"attn_mask": CAUSAL.expand(4, 5, 7)}):
        with whvi.mean_mode(attention):
            found = attention(*one, **options)[0]
        torch.testing.assert_close(found, merged(*one, **options)[0], rtol=1e-10, atol=1e-10)
    with pytest.raises(ShapeError, match=r"shape \(7,\), got \(1, 7\)"):
        attention(*one, key_padding_mask=PADDING[:1])


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("fixed", [False, True])
def test_a_sequence_sees_one_function_and_another_sequence_another(batch_first: bool, fixed: bool) -> None:
    """Equal tokens of a sequence have equal outputs, though layers draw for each example."""
    attention, _ = pair(batch_first=batch_first)
    token = torch.randn(32, dtype=torch.float64)
    x = token.expand(3, 5, 32) if batch_first else token.expand(5, 3, 32)
    if fixed:
        with whvi.sampling(attention, "example"):
            y, again = attention(x, x, x)[0], attention(x, x, x)[0]
        assert torch.equal(y, again)
    else:
        y = attention(x, x, x)[0]
    y = y if batch_first else y.transpose(0, 1)
    torch.testing.assert_close(y, y[:, :1].expand_as(y))
    assert (y[0] - y[1]).abs().max() > 1e-3


@pytest.mark.parametrize("batch_first", [True, False])
def test_no_sequence_is_no_mistake(batch_first: bool) -> None:
    attention, dense = pair(batch_first=batch_first)
    x = torch.randn((0, 5, 32) if batch_first else (5, 0, 32), dtype=torch.float64)
    for found, expected in zip(attention(x, x, x), dense(x, x, x), strict=True):
        assert found.shape == expected.shape


@pytest.mark.parametrize("batch_first", [True, False])
def test_parts_of_a_batch_go_through_functions_of_their_own(batch_first: bool) -> None:
    attention, _ = pair(batch_first=batch_first)
    x = torch.randn(2, 5, 32, dtype=torch.float64)
    with whvi.sampling(attention, 3) as draws:
        many = x.repeat(3, 1, 1) if batch_first else x.repeat(3, 1, 1).transpose(0, 1)
        y = attention(many, many, many)[0]
    y = y if batch_first else y.transpose(0, 1)
    for s, part in enumerate(y.chunk(3)):
        merged = to_dense_at(attention, draws, s)
        own = x if batch_first else x.transpose(0, 1)
        expected = merged(own, own, own)[0]
        torch.testing.assert_close(part, expected if batch_first else expected.transpose(0, 1), rtol=1e-9, atol=1e-9)


def to_dense_at(attention: BayesianAttention, draws: object, s: int) -> nn.MultiheadAttention:
    """The dense attention of draw s of several."""
    merged = to_dense(attention)
    assert isinstance(merged, nn.MultiheadAttention)
    layers = [attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj]
    weights = [layer.weight_at(draws[layer])[s] for layer in layers]
    biases = [layer.bias_value(draws[layer])[s] for layer in layers]
    with torch.no_grad():
        merged.in_proj_weight.copy_(torch.cat(weights[:3]))
        merged.in_proj_bias.copy_(torch.cat(biases[:3]))
        merged.out_proj.weight.copy_(weights[3])
        merged.out_proj.bias.copy_(biases[3])
    return merged


@pytest.mark.parametrize("rule", [None, "*.linear1", "*.self_attn"])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_in_evaluation_calls_its_layers(rule: str | None, norm_first: bool) -> None:
    """Without gradients torch's encoder has paths of its own that read weights; the converted one has no use for them.

    Law: it draws in eval mode too, and its mean is the merged encoder, also with padded sequences.
    """
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first, dtype=torch.float64)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    bayesian = bayesianize(encoder, rule=rule).model
    merged = to_dense(bayesian)
    x, keep = torch.randn(3, 7, 32, dtype=torch.float64), ~PADDING
    for mode in (torch.no_grad, torch.enable_grad):
        with mode():
            for masks in ({}, {"src_key_padding_mask": PADDING}):
                with whvi.mean_mode(bayesian):
                    y = bayesian(x, **masks)
                torch.testing.assert_close(y[keep], merged(x, **masks)[keep], rtol=1e-10, atol=1e-10)
                assert not torch.equal(bayesian(x, **masks), bayesian(x, **masks))


def test_prediction_and_transposed_sequences() -> None:
    """A model that transposes for an encoder with the batch in the middle: each function is one for all of a row."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.TransformerEncoderLayer(32, 4, 64)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.encoder(x.transpose(0, 1)).mean(0)
            return y

    model = bayesianize(Model().eval()).model
    x = torch.randn(6, 4, 32)
    functions = whvi.predict(model, x, samples=8, seed=0).samples(8)
    alone = whvi.predict(model, x[:1], samples=8, seed=0).samples(8)
    torch.testing.assert_close(functions[:, :1], alone, rtol=1e-4, atol=1e-4)
    assert functions.std(0).min() > 0
