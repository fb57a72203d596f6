"""The paper's regression in miniature, on real data where they are at hand."""

from pathlib import Path

import pytest
import torch
from loading import benchmark

from whvi.inference import SVI, fit_replicas
from whvi.likelihoods import Gaussian
from whvi.predictive import predict


@pytest.mark.slow
def test_all_splits_of_yacht_learn_at_once(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fiftieth of the paper's steps explain most of the variance, in every split; the mean alone explains none."""
    monkeypatch.setenv("WHVI_DATA", str(data_dir))
    script = benchmark("replicas")
    parts = script.splits("yacht")
    assert [len(x) for (x, _), _ in parts] == [277] * 8
    torch.testing.assert_close(parts[0][0][0].mean(0), torch.zeros(6), atol=1e-5, rtol=0.0)
    assert not torch.equal(parts[0][1][1], parts[1][1][1])
    models = [script.network(train, split) for split, (train, _) in enumerate(parts)]
    likelihoods = [Gaussian() for _ in parts]
    fit_replicas(models, likelihoods, [train for train, _ in parts], steps=1000, algorithm=SVI(1e-2))
    for model, likelihood, (_, (x, y)) in zip(models, likelihoods, parts, strict=True):
        prediction = predict(model, x, 32, likelihood=likelihood, seed=0)
        assert prediction.rmse(y) < 0.3 * y.std()
