"""How many parameters a network has, layer by layer, without making one of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from whvi_paper.networks.convnets import MODELS, convnet
from whvi_paper.networks.treatments import TREATMENTS, Treatment, treatment

LINEAR, FILTERS = "linear", "filters"


@dataclass(frozen=True)
class LayerCount:
    """A layer that a treatment made."""

    kind: str
    """LINEAR or FILTERS."""
    shape: tuple[int, ...]
    """Of its dense weight: (outputs, inputs), and for filters height and width."""
    parameters: int


@dataclass(frozen=True)
class Count:
    """Parameters of a network.

    Law: ``total`` is the number of elements of ``model.parameters()``.
    """

    layers: tuple[LayerCount, ...]
    """In the order of the network."""
    total: int

    @property
    def linear(self) -> int:
        """In linear maps."""
        return sum(layer.parameters for layer in self.layers if layer.kind == LINEAR)

    @property
    def filters(self) -> int:
        """In convolutions."""
        return sum(layer.parameters for layer in self.layers if layer.kind == FILTERS)

    @property
    def other(self) -> int:
        """In what no treatment made: normalisation."""
        return self.total - self.linear - self.filters


def count_parameters(model: str, of: str | Treatment = "whvi", *, classes: int = 10) -> Count:
    """Parameters of a network of ``MODELS`` under a treatment.

    >>> found = count_parameters("alexnet", "whvi")
    >>> found.linear, found.filters, found.other, found.total
    (59412, 2251584, 0, 2310996)
    >>> found.layers[0]
    LayerCount(kind='filters', shape=(64, 3, 3, 3), parameters=1792)
    """
    made: dict[nn.Module, tuple[str, tuple[int, ...]]] = {}

    def noted(kind: str, make: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
        def make_and_note(inputs: int, outputs: int, *size: int, **options: Any) -> nn.Module:
            layer = make(inputs, outputs, *size, **options)
            made[layer] = kind, (outputs, inputs, *size * 2)
            return layer

        return make_and_note

    linear, filters = treatment(of)
    with torch.device("meta"):  # shapes without numbers: no memory, no time
        network = convnet(model, Treatment(noted(LINEAR, linear), noted(FILTERS, filters)), classes=classes)
    layers = (LayerCount(*made[part], elements(part)) for part in network.modules() if part in made)
    return Count(tuple(layers), elements(network))


def elements(module: nn.Module) -> int:
    """Parameters of a module, each once.

    >>> elements(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in module.parameters())


def by_model() -> list[dict[str, Any]]:
    """For each network its layers and dense parameters, as rows of a table."""
    rows = []
    for model in MODELS:
        found = count_parameters(model, "dense")
        kinds = [layer.kind for layer in found.layers]
        rows.append(
            {"model": model, "filters": kinds.count(FILTERS), "linear": kinds.count(LINEAR), "parameters": found.total}
        )
    return rows


def by_treatment(model: str) -> list[dict[str, Any]]:
    """For each treatment the parameters of a network, as rows of a table."""
    dense = count_parameters(model, "dense")
    rows = []
    for of in TREATMENTS:
        found = count_parameters(model, of)
        numbers = {name: getattr(found, name) for name in (LINEAR, FILTERS, "other", "total")}
        rows.append({"treatment": of, **numbers, "share_of_dense": found.total / dense.total})
    return rows


def by_layer(model: str, of: str | Treatment) -> list[dict[str, Any]]:
    """For each layer its weight and its parameters, as rows of a table; the last two are all else and the sum."""
    dense, found = count_parameters(model, "dense"), count_parameters(model, of)
    parts = [
        (layer.kind, " x ".join(map(str, layer.shape)), layer.parameters, plain.parameters)
        for layer, plain in zip(found.layers, dense.layers, strict=True)
    ]
    parts += [("other", "", found.other, dense.other), ("total", "", found.total, dense.total)]
    names = ("layer", "weight", "parameters", "dense", "share_of_dense")
    return [dict(zip(names, (*part, part[-2] / part[-1] if part[-1] else None), strict=True)) for part in parts]
