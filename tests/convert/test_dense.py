"""Merged models: the mean, or one draw, in plain layers; exported, they give the same numbers."""

import copy
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.convert import bayesianize, to_dense
from whvi.errors import ArgumentError, InputTypeError
from whvi.nn import (
    FullCovarianceLinear,
    MCDropout,
    MeanFieldConv2d,
    MeanFieldLinear,
    WHVIColumn,
    WHVIConv2d,
    WHVIConvTranspose2d,
    WHVILinear,
)
from whvi_paper.baselines import (
    GaussianFactorsLinear,
    LowRankMCDropoutConv2d,
    MatrixGaussianConv2d,
    MatrixGaussianLinear,
    TensorFactorisedLinear,
)

GEOMETRY: dict[str, Any] = {"stride": 2, "padding": 1, "padding_mode": "reflect", "dtype": torch.float64}
LAYERS = {
    "whvi": lambda: WHVILinear(8, 6, dtype=torch.float64),
    "random scales": lambda: WHVILinear(8, 20, scales="diagonal", bias=False, dtype=torch.float64),
    "column": lambda: WHVIColumn(8, 2, dtype=torch.float64),
    "mean field": lambda: MeanFieldLinear(8, 6, dtype=torch.float64),
    "full covariance": lambda: FullCovarianceLinear(8, 6, dtype=torch.float64),
    "matrix Gaussian": lambda: MatrixGaussianLinear(8, 6, dtype=torch.float64),
    "tensor": lambda: TensorFactorisedLinear(8, 6, dtype=torch.float64),
    "Gaussian factors": lambda: GaussianFactorsLinear(8, 6, rank=2, dtype=torch.float64),
    "dropout": lambda: MCDropout(nn.Linear(8, 6, dtype=torch.float64), 0.5),
    "whvi filters": lambda: WHVIConv2d(4, 8, 3, groups=2, **GEOMETRY),
    "mean-field filters": lambda: MeanFieldConv2d(4, 8, 3, groups=2, **GEOMETRY),
    "matrix-Gaussian filters": lambda: MatrixGaussianConv2d(4, 8, 3, **GEOMETRY),
    "dropout filters": lambda: MCDropout(nn.Conv2d(4, 8, 3, groups=2, **GEOMETRY), 0.5),
    "transposed filters": lambda: WHVIConvTranspose2d(4, 8, 3, 2, 1, 1, groups=2, dtype=torch.float64),
    "low-rank filters": lambda: LowRankMCDropoutConv2d(4, 8, 3, 3, p=0.5, **GEOMETRY),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_has_a_plain_twin(name: str) -> None:
    layer = LAYERS[name]()
    conv = "filters" in name
    x = torch.randn(5, 4, 6, 6, dtype=torch.float64) if conv else torch.randn(5, 8, dtype=torch.float64)
    merged = to_dense(layer.eval())
    images = nn.ConvTranspose2d if "transposed" in name else nn.Conv2d
    assert type(merged) is (images if conv else nn.Linear)
    assert not merged.training
    with whvi.mean_mode(layer):
        torch.testing.assert_close(merged(x), layer(x), rtol=1e-10, atol=1e-10)
    with whvi.sampling(layer) as draws:
        torch.testing.assert_close(to_dense(layer, draws)(x), layer(x), rtol=1e-10, atol=1e-10)
    with whvi.sampling(layer, 1, torch.Generator().manual_seed(3)):
        y = layer(x)
    torch.testing.assert_close(to_dense(layer, 3)(x), y, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(to_dense(layer, torch.Generator().manual_seed(3))(x), y, rtol=1e-10, atol=1e-10)
    assert not torch.allclose(to_dense(layer, 4)(x), y)


def network() -> nn.Module:
    """Convolution, normalisation, a shared layer, attention; float32."""
    shared = WHVILinear(16, 16)
    return nn.Sequential(
        WHVIConv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(2), Transpose(),
        bayesianize(nn.TransformerEncoderLayer(16, 2, 16, batch_first=True)).model, shared, nn.ReLU(), shared,
        MeanFieldLinear(16, 3),
    ).eval()  # fmt: skip


class Transpose(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mT


def test_a_network_is_merged_as_a_whole() -> None:
    model, x = network().double(), torch.randn(2, 3, 4, 4, dtype=torch.float64)
    state = copy.deepcopy(model.state_dict())
    merged = to_dense(model, "mean")
    assert not whvi.nn.model.bayesian_layers(merged)
    assert merged[6] is merged[8]
    assert merged[1] is not model[1]
    with whvi.mean_mode(model):
        torch.testing.assert_close(merged(x), model(x), rtol=1e-10, atol=1e-10)
    with whvi.sampling(model) as draws:
        torch.testing.assert_close(to_dense(model, draws)(x), model(x), rtol=1e-10, atol=1e-10)
    for key, value in model.state_dict().items():
        assert torch.equal(value, state[key])


def test_torch_export() -> None:
    merged, x = to_dense(network()), torch.randn(2, 3, 4, 4)
    program = torch.export.export(merged, (x,))
    torch.testing.assert_close(program.module()(x), merged(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_onnx(tmp_path: Path) -> None:
    """The runtime gives the numbers of the merged model."""
    merged, x = to_dense(network()), torch.randn(2, 3, 4, 4)
    path = tmp_path / "model.onnx"
    torch.onnx.export(merged, (x,), str(path), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), merged(x).detach(), rtol=1e-4, atol=1e-5)


def test_mistakes_are_explained() -> None:
    layer = WHVILinear(8, 8)
    with whvi.sampling(layer, 3) as several:
        pass
    with pytest.raises(ArgumentError, match=r"draws have shape \(3,\)"):
        to_dense(layer, several)
    with pytest.raises(ArgumentError, match="draws lack 1 of the 1"):
        to_dense(layer, {})
    with pytest.raises(InputTypeError, match="'median'"):
        to_dense(layer, "median")
    with pytest.raises(InputTypeError, match=r"must be a torch\.nn\.Module"):
        to_dense(3)  # type: ignore[arg-type]
