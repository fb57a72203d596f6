"""The names of bayesian-torch."""

import math
from typing import Any

import pytest
import torch
from torch import nn

import whvi
from whvi.convert import dnn_to_bnn, get_kl_loss
from whvi.errors import ArgumentError
from whvi.nn import WHVIConv2d, WHVILinear

PARAMETERS: dict[str, Any] = {
    "prior_mu": 0.0,
    "prior_sigma": 0.5,
    "posterior_mu_init": 0.0,
    "posterior_rho_init": -3.0,
    "type": "Reparameterization",
    "moped_enable": False,
    "moped_delta": 0.2,
}


def model() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4), nn.Linear(4, 1))


@pytest.mark.parametrize("kind", ["Reparameterization", "Flipout"])
def test_all_layers_are_replaced_in_place(kind: str) -> None:
    net = model()
    report = dnn_to_bnn(net, {**PARAMETERS, "type": kind})
    assert [type(part) for part in net] == [WHVIConv2d, nn.ReLU, nn.Flatten, WHVILinear, WHVILinear]
    assert len(report.replaced) == 3
    assert net(torch.randn(2, 1, 4, 4)).shape == (2, 1)
    assert {layer.prior.initial_variance for layer in net if isinstance(layer, WHVILinear)} == {0.25}


@pytest.mark.filterwarnings("ignore:init='pretrained':DeprecationWarning")
@pytest.mark.filterwarnings("ignore:dnn_to_bnn:UserWarning")
@pytest.mark.parametrize(("moped", "part"), [(True, 0.2), (False, math.log1p(math.exp(-3.0)))])
def test_the_spread_at_the_start(moped: bool, part: float) -> None:
    net = nn.Sequential(nn.Linear(16, 16))
    report = dnn_to_bnn(net, {**PARAMETERS, "moped_enable": moped})
    size = 0.5 if not moped else float(net[0].g.mean.detach().square().mean().sqrt())
    assert size == pytest.approx(0.5)  # that of the prior
    torch.testing.assert_close(net[0].g.log_std.detach().exp(), torch.full((16,), part * size))
    assert (report.rows[0].error is not None) == moped


def test_the_kl_is_the_sum_of_all_posteriors_each_once() -> None:
    shared = nn.Linear(16, 16)
    net = nn.Sequential(shared, nn.ReLU(), shared, nn.Linear(16, 16))
    dnn_to_bnn(net, PARAMETERS)
    prior, unit = torch.distributions.Normal(0.0, 0.5), torch.distributions.Normal(0.0, 1.0)
    expected = torch.zeros(())
    for layer in (net[0], net[3]):
        for vector, law in ((layer.g, prior), (layer.bias, unit)):
            q = torch.distributions.Normal(vector.mean, vector.log_std.exp())
            expected = expected + torch.distributions.kl_divergence(q, law).sum()
    torch.testing.assert_close(get_kl_loss(net), expected)
    assert get_kl_loss(net) == whvi.kl(net)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"prior_mu": 1.0}, "prior_mu=1.0"), ({"posterior_mu_init": 0.1}, "posterior_mu_init"), ({"extra": 1}, "extra")],
)
def test_what_has_no_counterpart_is_said(change: dict[str, Any], words: str) -> None:
    with pytest.warns(UserWarning, match=words):
        dnn_to_bnn(model(), {**PARAMETERS, **change})


def test_another_type_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'Radial'"):
        dnn_to_bnn(model(), {**PARAMETERS, "type": "Radial"})
