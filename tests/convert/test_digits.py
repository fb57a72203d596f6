"""A trained network, made Bayesian and trained on: as accurate, with a fraction of the parameters."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import whvi
from whvi.convert import bayesianize
from whvi.inference import SVI
from whvi.inference.schedules import OneCycle
from whvi.likelihoods import Categorical

STEPS = 1000


def digits() -> tuple[Tensor, Tensor]:
    """1,797 images of 8 x 8 pixels in random order."""
    x, y = pytest.importorskip("sklearn.datasets").load_digits(return_X_y=True)
    order = torch.randperm(len(x))
    return torch.tensor(x / 16.0, dtype=torch.float32)[order], torch.tensor(y)[order]


def trained(x: Tensor, y: Tensor) -> nn.Module:
    """A dense network, trained as one does."""
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(1500):
        rows = torch.randint(len(x), (64,))
        loss = cross_entropy(model(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


@pytest.mark.slow
def test_a_trained_network_keeps_its_accuracy() -> None:
    x, y = digits()
    fitting, held_out = slice(1200), slice(1200, None)
    model = trained(x[fitting], y[fitting])
    with torch.no_grad():
        logits = model(x[held_out])
    accuracy = float((logits.argmax(-1) == y[held_out]).float().mean())

    bayesian, report = bayesianize(model, skip=("0", "4"))
    likelihood = Categorical(10)
    algorithm = SVI(2e-2, schedule=OneCycle(STEPS))
    whvi.fit(bayesian, likelihood, (x[fitting], y[fitting]), steps=STEPS, algorithm=algorithm, seed=0)
    prediction = whvi.predict(bayesian, x[held_out], samples=64, likelihood=likelihood, seed=0)
    assert report.share < 0.15
    assert float((prediction.mean.argmax(-1) == y[held_out]).float().mean()) >= accuracy - 0.01
