"""Every baseline layer through the shipped contract, with geometries that leave nothing at its default."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, pad

from whvi.nn import (
    BayesianLayer,
    FullCovarianceLinear,
    MCDropout,
    MeanFieldConv2d,
    MeanFieldLinear,
)
from whvi.testing import LayerContract, perturb
from whvi_paper.baselines import GaussianFactorsLinear, LowRankMCDropoutConv2d, TensorFactorisedLinear

F64: dict[str, Any] = {"dtype": torch.float64}
CONV: dict[str, Any] = {"stride": (1, 2), "padding": 2, "dilation": (2, 1)}
VECTOR, PLANE = (5,), (4, 5, 6)


class Case(NamedTuple):
    make: Callable[[], BayesianLayer]
    plain: Callable[[Tensor, Tensor, Tensor | None], Tensor] = linear
    """The layer without its law: x, weight, bias -> y."""
    event: tuple[int, ...] = VECTOR
    """Shape of an example."""


def conv(mode: str = "constant", groups: int = 1) -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
    def apply(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return conv2d(pad(x, (2, 2, 2, 2), mode), weight, bias, (1, 2), 0, (2, 1), groups)

    return apply


class BaselineContract(LayerContract):
    case: Case

    @pytest.fixture
    def layer(self, case: Case) -> BayesianLayer:
        torch.manual_seed(0)
        self.case = case
        return perturb(case.make())

    @pytest.fixture
    def inputs(self, case: Case) -> Tensor:
        return torch.randn(6, *case.event, dtype=torch.float64)

    def plain(self, layer: BayesianLayer, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return self.case.plain(x, weight, bias)


@pytest.mark.parametrize(
    "case",
    [
        Case(lambda: MeanFieldLinear(5, 3, **F64)),
        Case(lambda: MeanFieldLinear(5, 3, False, **F64)),
        Case(lambda: FullCovarianceLinear(5, 3, **F64)),
        Case(lambda: GaussianFactorsLinear(5, 3, rank=2, prior_variance=0.5, **F64)),
        Case(lambda: GaussianFactorsLinear(5, 3, 2, False, **F64)),
    ],
)
class TestMeanField(BaselineContract):
    local = True


@pytest.mark.parametrize(
    "case",
    [
        Case(
            lambda: MeanFieldConv2d(4, 6, (2, 3), groups=2, padding_mode="reflect", **CONV, **F64),
            conv("reflect", 2),
            PLANE,
        )
    ],
)
class TestMeanFieldConvolution(BaselineContract):
    local, joint = True, False


@pytest.mark.parametrize(
    "case",
    [
        Case(lambda: MCDropout(nn.Linear(5, 3, **F64), 0.4)),
        Case(
            lambda: MCDropout(nn.Conv2d(4, 6, (2, 3), groups=2, padding_mode="circular", **CONV, **F64), 0.4),
            conv("circular", 2),
            PLANE,
        ),
        Case(lambda: LowRankMCDropoutConv2d(4, 6, (2, 3), 3, p=0.4, **CONV, **F64), conv(), PLANE),
    ],
    ids=["linear", "convolution", "low rank"],
)
class TestDropout(BaselineContract):
    discrete = True


@pytest.mark.parametrize("case", [Case(lambda: TensorFactorisedLinear(5, 3, rank=3, cores=5, **F64))])
class TestTensorFactorised(BaselineContract):
    pass
