"""The paper's convolutional networks for images of 32 x 32 pixels, with any treatment of their weights.

The paper's tables name convolutions, poolings and linear maps, but neither activations nor normalisation. Activations
are ReLU. AlexNet's batch normalisation has no parameters, so that their number is the paper's; those of VGG16 and
ResNet-18 have theirs, as these networks do elsewhere.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from torch import Tensor, nn

from whvi.errors import ArgumentError
from whvi_paper.networks.treatments import MakeFilters, Treatment, treatment

POOL = "pool"
ALEXNET = (64, POOL, 192, POOL, 384, 256, 256, POOL)
ALEXNET_LINEAR = (4096, 4096)
VGG16 = (32, 32, POOL, 64, 64, POOL, 128, 128, 128, POOL, 256, 256, 256, POOL, 256, 256, 256, POOL)
RESNET18 = (64, 128, 256, 512)
SIMPLE = (64, POOL, 64, POOL)
"""Output channels of 3 x 3 convolutions, as the tables list them."""

Normalisation = Callable[[int], nn.Module]
"""Channels -> a layer."""
free_batch_norm: Normalisation = partial(nn.BatchNorm2d, affine=False)
"""Batch normalisation without parameters."""


def alexnet(
    of: str | Treatment = "whvi", *, classes: int = 10, normalisation: Normalisation | None = free_batch_norm
) -> nn.Sequential:
    """AlexNet: five convolutions, the first with stride 2, and linear maps 1024 -> 4096 -> 4096 -> ``classes``.

    Args:
        of: a treatment, by name or made.
        classes: outputs.
        normalisation: after each convolution; None for none.

    Shapes: (N, 3, 32, 32) -> (N, classes).

    >>> [sum(p.numel() for p in alexnet(of).parameters()) for of in ("dense", "whvi", "nf-whvi")]
    [23272266, 2310996, 2366301]
    """
    linear, filters = treatment(of)
    sizes = (ALEXNET[-2] * 2 * 2, *ALEXNET_LINEAR)
    hidden = [part for i, o in pairwise(sizes) for part in (linear(i, o), nn.ReLU())]
    plane = plain(filters, ALEXNET, normalisation, first_stride=2)
    return nn.Sequential(*plane, nn.Flatten(), *hidden, linear(sizes[-1], classes))


def vgg16(
    of: str | Treatment = "whvi", *, classes: int = 10, normalisation: Normalisation | None = nn.BatchNorm2d
) -> nn.Sequential:
    """VGG16 with the paper's widths: thirteen convolutions and one linear map, 256 -> ``classes``.

    Args and shapes: as for ``alexnet``.
    """
    linear, filters = treatment(of)
    return nn.Sequential(*plain(filters, VGG16, normalisation), nn.Flatten(), linear(VGG16[-2], classes))


def simple_cnn(
    of: str | Treatment = "whvi", *, classes: int = 10, normalisation: Normalisation | None = free_batch_norm
) -> nn.Sequential:
    """Two convolutions and one linear map, 4096 -> ``classes``: where the paper compares treatments of filters.

    Args and shapes: as for ``alexnet``.
    """
    linear, filters = treatment(of)
    features = SIMPLE[-2] * 8 * 8
    return nn.Sequential(*plain(filters, SIMPLE, normalisation), nn.Flatten(), linear(features, classes))


def resnet18(
    of: str | Treatment = "whvi", *, classes: int = 10, normalisation: Normalisation = nn.BatchNorm2d
) -> nn.Sequential:
    """ResNet-18 for small images: a first convolution, eight blocks of two, and one linear map, 512 -> ``classes``.

    Args and shapes: as for ``alexnet``.
    """
    linear, filters = treatment(of)
    first = [filters(3, RESNET18[0], 3, padding=1, bias=False), normalisation(RESNET18[0]), nn.ReLU()]
    blocks: list[nn.Module] = []
    inputs = RESNET18[0]
    for outputs in RESNET18:
        blocks += [
            ResidualBlock(filters, inputs, outputs, normalisation, 1 if outputs == inputs else 2),
            ResidualBlock(filters, outputs, outputs, normalisation),
        ]
        inputs = outputs
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear(inputs, classes))


class ResidualBlock(nn.Module):
    """relu(x + f(x)) with f two convolutions (He et al., 2016); x goes through a 1 x 1 convolution where f changes it.

    Args:
        filters: makes the convolutions.
        inputs, outputs: channels.
        normalisation: after each convolution.
        stride: of the first convolution.
    """

    def __init__(
        self, filters: MakeFilters, inputs: int, outputs: int, normalisation: Normalisation, stride: int = 1
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(
            filters(inputs, outputs, 3, stride=stride, padding=1, bias=False),
            normalisation(outputs),
            nn.ReLU(),
            filters(outputs, outputs, 3, padding=1, bias=False),
            normalisation(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                filters(inputs, outputs, 1, stride=stride, bias=False), normalisation(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(N, inputs, H, W) -> (N, outputs, H / stride, W / stride)."""
        total: Tensor = self.body(x) + self.shortcut(x)
        return total.relu()


def plain(
    filters: MakeFilters, layout: Sequence[int | str], normalisation: Normalisation | None, first_stride: int = 1
) -> list[nn.Module]:
    """Convolutions, normalisations, activations and poolings of a layout, for images of three channels."""
    layers: list[nn.Module] = []
    inputs, stride = 3, first_stride
    for outputs in layout:
        if isinstance(outputs, str):
            layers.append(nn.MaxPool2d(2))
            continue
        layers.append(filters(inputs, outputs, 3, stride=stride, padding=1))
        if normalisation is not None:
            layers.append(normalisation(outputs))
        layers.append(nn.ReLU())
        inputs, stride = outputs, 1
    return layers


MODELS: dict[str, Callable[..., nn.Sequential]] = {
    "alexnet": alexnet,
    "vgg16": vgg16,
    "resnet18": resnet18,
    "simple-cnn": simple_cnn,
}
"""Convolutional networks, by name."""


def convnet(name: str, of: str | Treatment = "whvi", *, classes: int = 10) -> nn.Sequential:
    """A network of ``MODELS``.

    >>> sum(p.numel() for p in convnet("vgg16", "dense").parameters())
    3686954
    """
    if name not in MODELS:
        raise ArgumentError(f"model {name!r} is unknown; use one of: {', '.join(MODELS)}")
    return MODELS[name](of, classes=classes)
