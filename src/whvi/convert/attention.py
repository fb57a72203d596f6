"""Attention whose four projections are Bayesian layers, with the interface of nn.MultiheadAttention."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from whvi.convert.layers import Made, Maker
from whvi.errors import DtypeError, ShapeError
from whvi.nn.attention import AttentionCall, AttentionLike
from whvi.nn.draws import Draws
from whvi.nn.stand_in import one_draw_per_sequence
from whvi.ops.torch_private import answer_as

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
"""Names of the layers."""


class BayesianAttention(AttentionLike):
    """Multi-head attention with the call signature of nn.MultiheadAttention and a Bayesian layer for each projection.

    All tokens of a sequence have the same weights: if layers draw for each example, a sequence is an example.

    Args:
        attention: the dense module, for its settings (heads, dropout, batch axis).
        q_proj, k_proj, v_proj, out_proj: layers for the projections.

    Shapes: query (N, L, E), key (N, S, kdim), value (N, S, vdim) -> (N, L, E) and weights (N, L, S) or None; with
    ``batch_first=False`` the first two axes are (L, N); without N for one sequence.

    Law: under a fixed draw of its projections, it equals nn.MultiheadAttention with their weights.
    """

    in_proj_weight = in_proj_bias = None  # torch's encoder takes the path that calls this module where there is none
    bias_k = bias_v = None

    def __init__(
        self,
        attention: nn.MultiheadAttention,
        q_proj: nn.Module,
        k_proj: nn.Module,
        v_proj: nn.Module,
        out_proj: nn.Module,
    ) -> None:
        super().__init__()
        self.embed_dim, self.kdim, self.vdim = attention.embed_dim, attention.kdim, attention.vdim
        self.num_heads, self.head_dim = attention.num_heads, attention.head_dim
        self.dropout, self.batch_first = attention.dropout, attention.batch_first
        answer_as(self, attention)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = q_proj, k_proj, v_proj, out_proj

    def attend(self, call: AttentionCall) -> tuple[Tensor, Tensor | None]:
        """The projections, each at its draw, and what torch does between them."""
        query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal = call
        batched = query.ndim == 3
        if query.ndim not in (2, 3) or {key.ndim, value.ndim} != {query.ndim}:
            shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
            raise ShapeError(f"query, key and value must all have three axes, or two for one sequence, got {shapes}")
        if is_causal and attn_mask is None:
            raise ShapeError("is_causal=True needs attn_mask, as in torch; pass the mask too")
        query, key, value = (self._batch_first(x, batched) for x in (query, key, value))
        sequences, queries, keys = *query.shape[:2], key.shape[1]
        whole = (sequences * self.num_heads, queries, keys)
        _check_mask("key_padding_mask", key_padding_mask, (sequences, keys) if batched else (keys,))
        _check_mask("attn_mask", attn_mask, whole[1:], whole)
        with one_draw_per_sequence(self.children(), sequences):
            q, k, v = (self._heads(x) for x in (self.q_proj(query), self.k_proj(key), self.v_proj(value)))
            mask = self._mask(key_padding_mask, attn_mask, q, keys)
            mixed, weights = self._attend(q, k, v, mask, need_weights)
            output: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        if weights is not None:
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights if batched else weights.squeeze(0)
        if not batched:
            return output.squeeze(0), weights
        return output if self.batch_first else output.transpose(0, 1), weights

    def _batch_first(self, x: Tensor, batched: bool) -> Tensor:
        """(N, L, features), so that the first axis of every layer is the batch."""
        if not batched:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def _heads(self, x: Tensor) -> Tensor:
        """(N, L, E) -> (N, heads, L, E / heads)."""
        heads: Tensor = x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
        return heads

    def _mask(self, padding: Tensor | None, mask: Tensor | None, query: Tensor, keys: int) -> Tensor | None:
        """What is added to the logits, or None: broadcasts to (N, heads, L, S)."""
        total = None
        if mask is not None:
            total = _additive(mask, query.dtype)
            total = total.unflatten(0, (-1, self.num_heads)) if mask.ndim == 3 else total
        if padding is not None:
            blocked = _additive(padding, query.dtype).reshape(-1, 1, 1, keys)
            total = blocked if total is None else total + blocked
        return total

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """(N, heads, L, E / heads) and, where they are needed, the weights (N, heads, L, S)."""
        rate = self.dropout if self.training else 0.0
        if not need_weights:
            return scaled_dot_product_attention(query, key, value, mask, rate), None
        logits = (query / sqrt(self.head_dim)) @ key.mT
        weights = dropout((logits if mask is None else logits + mask).softmax(-1), rate)
        return weights @ value, weights

    def extra_repr(self) -> str:
        """Sizes, for ``print``."""
        return f"{self.embed_dim}, heads={self.num_heads}, batch_first={self.batch_first}"


def split_projections(attention: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor | None]]:
    """Weight and bias of the four projections, in the order of ``PROJECTIONS``."""

    def parameter(value: Tensor, source: Tensor) -> nn.Parameter:
        return nn.Parameter(value.detach().clone(), requires_grad=source.requires_grad)

    joint: Any = attention.in_proj_weight
    if joint is not None:
        weights = [parameter(part, joint) for part in joint.detach().chunk(3)]
    else:
        weights = [getattr(attention, f"{name}_weight") for name in PROJECTIONS[:3]]
    bias: Any = attention.in_proj_bias
    biases = [None] * 3 if bias is None else [parameter(part, bias) for part in bias.detach().chunk(3)]
    out = attention.out_proj
    return [*zip(weights, biases, strict=True), (out.weight, out.bias)]


def make_attention(attention: nn.MultiheadAttention, maker: Maker) -> tuple[BayesianAttention, float | None]:
    """The Bayesian twin, and how far its mean weights are from the dense ones, all four together."""
    projections = split_projections(attention)
    made = [maker.linear(weight, bias) for weight, bias in projections]
    return BayesianAttention(attention, *(one.layer for one in made)), joint_error([w for w, _ in projections], made)


def joint_error(weights: Sequence[Tensor], made: Sequence[Made]) -> float | None:
    """How far the mean weights of layers are from dense ones, all together."""
    errors = [one.error for one in made if one.error is not None]
    if not errors:
        return None
    sizes = [float(weight.detach().double().square().sum()) for weight in weights]
    missed = sum(error**2 * size for error, size in zip(errors, sizes, strict=True))
    return sqrt(missed / sum(sizes)) if any(sizes) else 0.0


def dense_attention(attention: BayesianAttention, draws: Draws) -> nn.MultiheadAttention:
    """nn.MultiheadAttention with the weights of the projections at their draws (None for the mean)."""
    layers = [getattr(attention, name) for name in PROJECTIONS]
    weights = [layer.weight_at(draws[layer]).detach() for layer in layers]
    biases = [layer.bias_value(draws[layer]) for layer in layers]
    like = next(layers[0].parameters())
    sizes = {"kdim": attention.kdim, "vdim": attention.vdim, "batch_first": attention.batch_first}
    has_bias = any(bias is not None for bias in biases)
    dense = nn.MultiheadAttention(
        attention.embed_dim,
        attention.num_heads,
        attention.dropout,
        has_bias,
        **sizes,
        device=like.device,
        dtype=like.dtype,
    )
    with torch.no_grad():
        for (target, bias), weight, value in zip(_targets(dense), weights, biases, strict=True):
            target.copy_(weight)
            if bias is not None:
                bias.copy_(torch.zeros_like(bias) if value is None else value)
    return dense


def _targets(dense: nn.MultiheadAttention) -> list[tuple[Tensor, Tensor | None]]:
    """Views of the tensors of a dense module, as ``split_projections`` orders them."""
    joint: Any = dense.in_proj_weight
    weights = [getattr(dense, f"{name}_weight") for name in PROJECTIONS[:3]] if joint is None else joint.chunk(3)
    bias: Any = dense.in_proj_bias
    biases = [None] * 3 if bias is None else bias.chunk(3)
    return [*zip(weights, biases, strict=True), (dense.out_proj.weight, dense.out_proj.bias)]


def _check_mask(name: str, mask: Tensor | None, *shapes: tuple[int, ...]) -> None:
    """Raise the error that says what is wrong with a mask, where torch would refuse it, too."""
    if mask is None:
        return
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise DtypeError(f"{name} must be of bool or floating point, got {mask.dtype}; convert it with {name}.bool()")
    if tuple(mask.shape) not in shapes:
        raise ShapeError(f"{name} must have shape {' or '.join(map(str, shapes))}, got {tuple(mask.shape)}")


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """-inf where a mask of truth values is True; a mask of numbers as it is."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, float("-inf"))
