"""A trained network with an adapter, in miniature: as accurate as it was, and no worse in likelihood."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, nll_loss

import whvi
from whvi.adapters import adapt
from whvi.inference import SVI
from whvi.inference.schedules import OneCycle
from whvi.likelihoods import Categorical


def test_an_adapter_keeps_what_a_network_knows() -> None:
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16 - 0.3, dtype=torch.float32), torch.tensor(digits.target)
    order = torch.randperm(len(x))
    train, test = order[:1000], order[1000:]
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(200):
        rows = train[torch.randint(1000, (100,))]
        optimizer.zero_grad()
        cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        dense = model(x[test]).log_softmax(-1)
    _, report = adapt(model, terms=1)
    assert report.numbers < 0.1 * report.total
    likelihood, steps = Categorical(10), 200
    algorithm = SVI(1e-2, schedule=OneCycle(steps))
    whvi.fit(model, likelihood, (x[train], y[train]), steps=steps, batch_size=100, algorithm=algorithm, seed=0)
    found = whvi.predict(model, x[test], samples=16, likelihood=likelihood, seed=0).samples().softmax(-1).mean(0).log()
    errors = [float((log_p.argmax(-1) != y[test]).float().mean()) for log_p in (dense, found)]
    losses = [float(nll_loss(log_p, y[test])) for log_p in (dense, found)]
    assert errors[0] < 0.06
    assert errors[1] < errors[0] + 0.01
    assert losses[1] < losses[0] + 0.01
