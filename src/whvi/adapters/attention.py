"""nn.MultiheadAttention with deltas: its fused projections are weights, not modules, so they are added to those."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whvi.adapters.recipe import layers_of
from whvi.adapters.targets import projections
from whvi.convert.attention import PROJECTIONS
from whvi.nn.beside import SLOT, plus
from whvi.nn.draws import Draw
from whvi.nn.stand_in import Standing, draws_of_call, parts_of_call

OUT = "out_proj.weight"


class AdaptedAttention(nn.MultiheadAttention):
    """What the class of an adapted nn.MultiheadAttention is changed to, and back: torch's forward with other weights.

    One draw of weights serves a whole call, or one of the S equal parts of the batch; the parts go one by one.

    Law: under a fixed draw, forward == nn.MultiheadAttention with ``sums(attention, draws)`` for its weights.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As nn.MultiheadAttention."""
        delta: nn.Module | None = getattr(self, SLOT).delta
        options: dict[str, Any] = {
            "need_weights": need_weights,
            "average_attn_weights": average_attn_weights,
            "is_causal": is_causal,
        }
        if delta is None:
            return super().forward(query, key, value, key_padding_mask, attn_mask=attn_mask, **options)
        axis = 0 if self.batch_first else 1
        sequences = query.shape[axis] if query.ndim == 3 else 1
        draws = draws_of_call((layer for _, layer in layers_of(delta)), sequences)
        weights = sums(self, draws)
        count = parts_of_call(draws, sequences, query.ndim == 3)
        if count is None:
            return self._attend(weights, (query, key, value), key_padding_mask, attn_mask, options)
        # Of tensors of the batch their parts; what was one tensor stays one, which torch asks for.
        chunks = {id(x): x.chunk(count, axis) for x in (query, key, value)}
        paddings = [None] * count if key_padding_mask is None else key_padding_mask.chunk(count)
        masks = [attn_mask] * count if attn_mask is None or attn_mask.ndim < 3 else attn_mask.chunk(count)
        found = []
        for part in range(count):
            own = {name: weight[part] for name, weight in weights.items()}
            inputs = [chunks[id(x)][part] for x in (query, key, value)]
            found.append(self._attend(own, inputs, paddings[part], masks[part], options))
        outputs, attended = [y for y, _ in found], [w for _, w in found if w is not None]
        return torch.cat(outputs, axis), torch.cat(attended) if attended else None

    def _attend(
        self,
        weights: Mapping[str, Tensor],
        inputs: Sequence[Tensor],  # query, key and value
        padding: Tensor | None,
        mask: Tensor | None,
        options: Mapping[str, Any],
    ) -> tuple[Tensor, Tensor | None]:
        """Torch's forward with other weights, which are named as the parameters are."""
        inner = {name: weight for name, weight in weights.items() if name != OUT}
        stand_in: Any = Standing(self, out_proj=Standing(self.out_proj, weight=weights[OUT]), **inner)
        query, key, value = inputs
        return nn.MultiheadAttention.forward(stand_in, query, key, value, padding, attn_mask=mask, **options)


def sums(attention: nn.MultiheadAttention, draws: Mapping[nn.Module, Draw | None]) -> dict[str, Tensor]:
    """The weights with their deltas at draws of one shape, or at the mean, by the names of the parameters."""
    deltas = [layer.weight_at(draws[layer]) for _, layer in layers_of(getattr(attention, SLOT).delta)]
    *inner, out = (plus(base, delta) for base, delta in zip(projections(attention), deltas, strict=True))
    joint: Tensor | None = attention.in_proj_weight
    if joint is not None:
        return {"in_proj_weight": torch.cat(inner, -2), OUT: out}
    return {**{f"{name}_weight": weight for name, weight in zip(PROJECTIONS, inner, strict=False)}, OUT: out}
