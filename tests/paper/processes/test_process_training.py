"""Training of processes: how rows are divided, who has how many parameters, and what is predicted."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import whvi
from whvi.errors import ArgumentError
from whvi.likelihoods import Gaussian
from whvi.models import RandomFeatureGP
from whvi.testing import perturb
from whvi_paper.data import load
from whvi_paper.processes.training import (
    POSTERIORS,
    divided,
    features_for,
    functions,
    mixture_metrics,
    train,
    weight_parameters,
)


def test_a_fifth_trains() -> None:
    data = load("rastrigin5")
    parts = divided(data, 0)
    assert [len(part) for part in parts] == [2000, 2000, 8000, 8000]
    x = torch.cat((parts.x, parts.test_x))
    assert_close((x.amin(0), x.amax(0)), (torch.zeros(5), torch.ones(5)))
    assert_close((parts.y.mean(), parts.y.std(correction=0)), (torch.tensor(0.0), torch.tensor(1.0)), atol=1e-5, rtol=0)
    assert len(x.unique(dim=0)) == len(data)  # every row once
    assert not torch.equal(divided(data, 1).x, parts.x)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("side", [4, 16, 64])
def test_numbers_of_parameters_match(side: int, covariance: str) -> None:
    def count(method: str, features: int) -> int:
        gp = RandomFeatureGP(3, features, posterior=POSTERIORS[method, covariance])
        return sum(parameter.numel() for parameter in gp.weights.parameters())

    wanted = weight_parameters(side, covariance)
    assert count("whvi", side**2) == wanted
    features = features_for(wanted, covariance)
    assert count("vi", features - 2) < wanted <= count("vi", features)


@pytest.mark.parametrize("posterior", POSTERIORS.values())
def test_predictions_are_those_of_the_library(posterior: str) -> None:
    model = perturb(RandomFeatureGP(3, 16, posterior=posterior))
    likelihood = Gaussian(variance=0.1)
    x, y = torch.rand(50, 3), torch.randn(50, 1)
    prediction = whvi.predict(model, x, 16, likelihood=likelihood, seed=5)
    f = functions(model, x, 16, 5)
    assert_close(f.mean(0, keepdim=True).mT, prediction.mean, atol=1e-5, rtol=1e-5)
    found = mixture_metrics(f, likelihood, y)
    assert found["rmse"] == pytest.approx(float(prediction.rmse(y)), rel=1e-5)
    assert found["mnll"] == pytest.approx(float(prediction.mnll(y)), rel=1e-5)


def test_a_record_is_a_function_of_its_inputs(tmp_path: Path) -> None:
    settings = {
        "projection": "gaussian", "learn": True, "learning_rate": 0.01, "schedule": "cosine", "batch_size": 64,
        "noise_variance": 0.0004, "frozen_steps": 2,
    }  # fmt: skip
    one = {
        "dataset": "rastrigin5", "method": "whvi", "covariance": "diagonal", "side": 4, "steps": 6, "samples": 4,
        "seed": 0, "configuration": settings,
    }  # fmt: skip
    other = {**one, "configuration": {**settings, "learn": False}}
    found = train([one, one, other], tmp_path, lambda share: None)
    assert found[0] == found[1]
    assert found[0]["metrics"] != found[2]["metrics"]
    assert (found[0]["parameters"], found[0]["features"]) == (16, 16)
    with pytest.raises(ArgumentError, match="method 'map' is unknown; use one of: whvi, vi, svgp, exact"):
        train([{**one, "method": "map"}], tmp_path, lambda share: None)
