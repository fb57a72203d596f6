"""nn.MultiheadAttention with deltas: its fused projections are weights, not modules, so they are added to those."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from whvi.adapters.recipe import layers_of
from whvi.adapters.targets import projections
from whvi.convert.attention import PROJECTIONS
from whvi.nn.attention import AttentionCall, AttentionLike
from whvi.nn.beside import SLOT, plus
from whvi.nn.draws import Draw
from whvi.nn.stand_in import Standing, draws_of_call, parts_of_call

OUT = "out_proj.weight"


class AdaptedAttention(AttentionLike, nn.MultiheadAttention):
    """What the class of an adapted nn.MultiheadAttention is changed to, and back: torch's forward with other weights.

    One draw of weights serves a whole call, or one of the S equal parts of the batch; the parts go one by one.

    Law: under a fixed draw, forward == nn.MultiheadAttention with ``sums(attention, draws)`` for its weights.
    """

    def attend(self, call: AttentionCall) -> tuple[Tensor, Tensor | None]:
        """Torch's forward, with the weights of this call."""
        delta: nn.Module | None = getattr(self, SLOT).delta
        if delta is None:
            return nn.MultiheadAttention.forward(self, *call)
        axis, batched = 0 if self.batch_first else 1, call.query.ndim == 3
        sequences = call.query.shape[axis] if batched else 1
        draws = draws_of_call((layer for _, layer in layers_of(delta)), sequences)
        weights = sums(self, draws)
        count = parts_of_call(draws, sequences, batched)
        if count is None:
            return self._with(weights, call)
        each = zip(_parts(call, count, axis), range(count), strict=True)
        found = [self._with({name: weight[i] for name, weight in weights.items()}, part) for part, i in each]
        outputs, attended = [y for y, _ in found], [w for _, w in found if w is not None]
        return torch.cat(outputs, axis), torch.cat(attended) if attended else None

    def _with(self, weights: Mapping[str, Tensor], call: AttentionCall) -> tuple[Tensor, Tensor | None]:
        """Torch's forward with other weights, which are named as the parameters are."""
        inner = {name: weight for name, weight in weights.items() if name != OUT}
        stand_in: Any = Standing(self, out_proj=Standing(self.out_proj, weight=weights[OUT]), **inner)
        return nn.MultiheadAttention.forward(stand_in, *call)


def _parts(call: AttentionCall, count: int, axis: int) -> Iterator[AttentionCall]:
    """The call on each part of the batch. What was one tensor stays one, which torch asks for."""
    inputs = {id(x): x.chunk(count, axis) for x in call[:3]}
    padding, mask = call.key_padding_mask, call.attn_mask
    paddings = [None] * count if padding is None else padding.chunk(count)
    masks = [mask] * count if mask is None or mask.ndim < 3 else mask.chunk(count)
    for i in range(count):
        query, key, value = (inputs[id(x)][i] for x in call[:3])
        part = call._replace(query=query, key=key, value=value)
        yield part._replace(key_padding_mask=paddings[i], attn_mask=masks[i])


def sums(attention: nn.MultiheadAttention, draws: Mapping[nn.Module, Draw | None]) -> dict[str, Tensor]:
    """The weights with their deltas at draws of one shape, or at the mean, by the names of the parameters."""
    deltas = [layer.weight_at(draws[layer]) for _, layer in layers_of(getattr(attention, SLOT).delta)]
    *inner, out = (plus(base, delta) for base, delta in zip(projections(attention), deltas, strict=True))
    joint: Tensor | None = attention.in_proj_weight
    if joint is not None:
        return {"in_proj_weight": torch.cat(inner, -2), OUT: out}
    return {**{f"{name}_weight": weight for name, weight in zip(PROJECTIONS, inner, strict=False)}, OUT: out}
