"""Draws that know their rows: a layer that sees something else on its first axis says so."""

import pytest
import torch
from torch import Tensor

import whvi
from whvi.errors import ShapeError
from whvi.nn import BayesianLayer, Draw, MCDropout, MeanFieldLinear, WHVIConv2d, WHVILinear
from whvi.nn.draws import PartsError

LAYERS = {
    "WHVI": lambda: WHVILinear(3, 2),
    "mean field": lambda: MeanFieldLinear(3, 2),
    "dropout": lambda: MCDropout(torch.nn.Linear(3, 2), 0.5),
}
SEED = torch.tensor(5)


def at(layer: BayesianLayer, draw: Draw, x: Tensor) -> Tensor:
    with whvi.sampling(layer, {layer: draw}), torch.no_grad():
        return layer(x)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("shape", [(4,), None], ids=str)
def test_rows_change_no_value(name: str, shape: tuple[int, ...] | None) -> None:
    layer, x = LAYERS[name](), torch.randn(24, 3)  # 4 draws of 6 rows, or of 3 rows at 2 positions
    expected = at(layer, Draw(SEED, shape), x)
    for rows in (1, 2, 3, 6) if shape else (1, 12, 24):
        assert torch.equal(at(layer, Draw(SEED, shape, rows), x), expected)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("lead", [(4,), (8,), (20,), (4, 12), ()], ids=str)
def test_what_is_no_rows_is_refused(name: str, lead: tuple[int, ...]) -> None:
    layer, x = LAYERS[name](), torch.randn(*lead, 3)
    for draw in (Draw(SEED, (4,), 3), Draw(SEED, None, 12)):
        with pytest.raises(PartsError, match="first axis must be"):
            at(layer, draw, x)
    assert issubclass(PartsError, ShapeError)


def test_one_draw_takes_anything() -> None:
    layer = LAYERS["mean field"]()
    for lead in ((), (7,), (5, 7)):
        assert at(layer, Draw(SEED, (), 12), torch.randn(*lead, 3)).shape == (*lead, 2)


def test_the_message_names_parts_and_rows() -> None:
    message = (
        r"x has shape \(16, 3\), but its first axis must be 16 equal parts of 4 rows, one for each draw; repeat x 16"
    )
    with pytest.raises(ShapeError, match=message):
        at(LAYERS["WHVI"](), Draw(SEED, (16,), 4), torch.randn(16, 3))


def test_images_are_rows_too() -> None:
    layer, x = WHVIConv2d(2, 3, 3), torch.randn(8, 2, 5, 5)
    assert torch.equal(at(layer, Draw(SEED, (2,), 4), x), at(layer, Draw(SEED, (2,)), x))
    with pytest.raises(PartsError, match="2 equal parts of 8 rows"):
        at(layer, Draw(SEED, (2,), 8), x)
