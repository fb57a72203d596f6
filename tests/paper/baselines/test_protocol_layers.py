"""Layers of the paper's protocol: H without normalisation, and the start of the authors' public layers."""

from math import log

import pytest
import torch

import whvi
from whvi.ops import fwht
from whvi_paper.baselines import ProtocolMeanField, ProtocolWHVI
from whvi_paper.baselines.protocol import LAMBDA


def test_h_has_entries_one_and_minus_one() -> None:
    layer = ProtocolWHVI(6, 8)
    hadamard, x = fwht(torch.eye(8)), torch.randn(3, 6)
    with torch.no_grad():
        layer.g.mean.normal_()
        s1, s2 = layer.scales.parameters()
        wanted = (s1[:, None] * hadamard * layer.g.mean) @ (hadamard * s2)
        torch.testing.assert_close(layer.weight_at(), wanted[:, :6])
        with whvi.mean_mode(layer):
            torch.testing.assert_close(layer(x), x @ wanted[:, :6].T)


def test_the_prior_of_g_is_the_papers_and_the_start_that_of_the_public_layers() -> None:
    layer = ProtocolWHVI(100, 256)
    ratio = 2.0 / 128 / LAMBDA
    assert layer.g.kl(layer.prior).item() == pytest.approx(64 * (ratio - 1.0 - log(ratio)), rel=1e-5)
    for scale in layer.scales.parameters():
        assert float(scale.detach().var()) == pytest.approx(2.0 / 128, rel=0.25)
        assert float(scale.detach().abs().max()) <= (6.0 / 128) ** 0.5


def test_plain_weights_start_at_zero_with_one_variance_whatever_their_number() -> None:
    for inputs in (4, 64):
        layer = ProtocolMeanField(inputs, 3)
        assert not layer.weight_at().any()
        torch.testing.assert_close(layer.weights.log_std, torch.full((3, inputs), -2.0))
        assert float(layer.prior.variance) == 1.0 / inputs
