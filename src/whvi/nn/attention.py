"""The call signature of nn.MultiheadAttention, for modules that replace it."""

from abc import abstractmethod
from typing import NamedTuple

from torch import Tensor, nn


class AttentionCall(NamedTuple):
    """The arguments of one call of nn.MultiheadAttention, in its order."""

    query: Tensor
    key: Tensor
    value: Tensor
    key_padding_mask: Tensor | None
    need_weights: bool
    attn_mask: Tensor | None
    average_attn_weights: bool
    is_causal: bool


class AttentionLike(nn.Module):
    """A module with the call signature of nn.MultiheadAttention."""

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
        """Like nn.MultiheadAttention: masks are True, or -inf, where attention is not allowed."""
        masks = key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        return self.attend(AttentionCall(query, key, value, *masks))

    @abstractmethod
    def attend(self, call: AttentionCall) -> tuple[Tensor, Tensor | None]:
        """The output, and the attention weights if they are needed."""
