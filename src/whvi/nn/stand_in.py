"""Forward passes with other weights for torch modules that read weights instead of calling layers."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from whvi.nn.base import BayesianLayer
from whvi.nn.draws import FRESH, Draw, Draws, PartsError, entry_of, fixed_draws, fixing, is_fresh
from whvi.nn.ties import check_alone
from whvi.ops import draw_seed


class Standing:
    """A stand-in for a module in one call of its forward, with some attributes replaced.

    The module itself does not change, so threads do not see each other's weights.
    """

    def __init__(self, whose: nn.Module, **others: Any) -> None:
        self.__dict__.update(others, whose=whose)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whose, name)


def one_draw_per_sequence(layers: Iterable[nn.Module], sequences: int) -> AbstractContextManager[Draws]:
    """For a block, the draws of layers that would draw for each token: one for each sequence instead."""
    fixed: Draws = fixed_draws() or {}
    draws: dict[nn.Module, Draw | None] = {}
    for layer in layers if sequences else ():
        if not isinstance(layer, BayesianLayer):
            continue
        if layer not in fixed:
            if layer.draws == "example":
                check_alone(layer)
                draws[layer] = Draw(draw_seed(device=next(layer.parameters()).device), (sequences,))
        elif (draw := fixed[layer]) is not None and draw.shape is None:
            draws[layer] = Draw(draw.seed, (sequences,), shared=draw.shared)
    return fixing(draws)


def draws_of_call(layers: Iterable[BayesianLayer], sequences: int) -> dict[nn.Module, Draw | None]:
    """The draws of layers in a call, fixed or new; one for each sequence, not for each token."""
    layers = list(layers)
    with one_draw_per_sequence(layers, sequences):
        fixed = fixed_draws() or {}
    draws: dict[nn.Module, Draw | None] = {}
    for layer in layers:
        draws[layer] = entry_of(layer, fixed, FRESH)
        if is_fresh(draws[layer]):
            check_alone(layer)
            draws[layer] = layer.draw()
    return draws


def parts_of_call(draws: Mapping[nn.Module, Draw | None], sequences: int, batched: bool) -> int | None:
    """The number of parts of a batch with separate draws; None for one draw, or the mean."""
    several = [draw for draw in draws.values() if draw is not None and draw.shape]
    if not several:
        return None
    (count,), rows = several[0].shape or (1,), several[0].rows
    if not batched or sequences % (count * rows):
        raise PartsError(
            f"the input has {sequences} sequences, but its batch must be {count} equal parts, one for each draw; "
            "repeat it"
        )
    return count
