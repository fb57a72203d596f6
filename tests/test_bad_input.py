"""Bad input, in one table: for each case a clear error, or the result that the documentation names."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import whvi
from whvi.errors import WhviError
from whvi.likelihoods import Categorical, Gaussian
from whvi.nn import WHVILinear

NAN, INF = float("nan"), float("inf")
X, Y = torch.linspace(-1.0, 1.0, 30).reshape(10, 3), torch.linspace(0.0, 1.0, 10).unsqueeze(-1)
LABELS = torch.arange(10) % 3


def model(outputs: int = 1) -> nn.Module:
    return nn.Sequential(WHVILinear(3, 8), nn.ReLU(), WHVILinear(8, outputs))


def spoilt(tensor: Tensor, value: float) -> Tensor:
    tensor = tensor.clone()
    tensor[2] = value
    return tensor


def fit(x: Tensor = X, y: Tensor = Y) -> object:
    return whvi.fit(model(), Gaussian(), (x, y), steps=2)


def classify(y: Tensor) -> object:
    return whvi.fit(model(3), Categorical(3), (X, y), steps=2)


def elbo(x: Tensor = X, y: Tensor = Y, n_data: int = 10) -> object:
    return whvi.elbo(model(), Gaussian(), x, y, n_data=n_data)


def predict(x: Tensor = X, samples: int = 4) -> whvi.predictive.Prediction:
    return whvi.predict(model(), x, samples, likelihood=Gaussian())


ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "fit: NaN in x": (lambda: fit(x=spoilt(X, NAN)), "x has NaN or inf in 1 of 10 rows"),
    "fit: inf in x": (lambda: fit(x=spoilt(X, INF)), "x has NaN or inf in 1 of 10 rows"),
    "fit: NaN in y": (lambda: fit(y=spoilt(Y, NAN)), "y has NaN or inf in 1 of 10 rows"),
    "fit: inf in y": (lambda: fit(y=spoilt(Y, INF)), "y has NaN or inf in 1 of 10 rows"),
    "fit: lengths": (lambda: fit(y=Y[:7]), "one row for each example"),
    "fit: no rows": (lambda: fit(X[:0], Y[:0]), "no rows"),
    "fit: label too large": (lambda: classify(LABELS + 1), r"must be 0 \.\.\. 2 for 3 classes, got 1 \.\.\. 3"),
    "fit: label negative": (lambda: classify(LABELS - 1), r"must be 0 \.\.\. 2 for 3 classes, got -1"),
    "fit: labels that are no whole numbers": (lambda: classify(LABELS.float()), "must be integers"),
    "elbo: NaN in x": (lambda: elbo(x=spoilt(X, NAN)), "x has NaN or inf in 1 of 10 rows"),
    "elbo: inf in y": (lambda: elbo(y=spoilt(Y, INF)), "y has NaN or inf in 1 of 10 rows"),
    "elbo: lengths": (lambda: elbo(y=Y[:7]), "one row for each example"),
    "elbo: n_data below the batch": (lambda: elbo(n_data=9), "n_data is 9, but this batch alone has 10 rows"),
    "elbo: no rows": (lambda: elbo(X[:0], Y[:0]), "no rows"),
    "fit: float64 for float32": (
        lambda: fit(x=X.double()),
        "x has dtype torch.float64, but the layer has torch.float32",
    ),
    "predict: float64 for float32": (
        lambda: whvi.predict(nn.Linear(3, 1), X.double()),
        "x has dtype torch.float64, but the layer has torch.float32",
    ),
    "predict: NaN in x": (lambda: predict(spoilt(X, NAN)), "x has NaN or inf in 1 of 10 rows"),
    "predict: inf in x": (lambda: predict(spoilt(X, -INF)), "x has NaN or inf in 1 of 10 rows"),
    "predict: no samples": (lambda: predict(samples=0), "samples must be at least 1"),
    "predict: NaN in y": (lambda: predict().mnll(spoilt(Y, NAN)), "y has NaN or inf in 1 of 10 rows"),
    "predict: lengths": (lambda: predict().mnll(Y[:7]), "7 rows, but 10 were predicted"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_says_what_came_and_what_to_do(case: str) -> None:
    call, message = ERRORS[case]
    with pytest.raises(WhviError, match=message):
        call()


def test_no_rows_give_empty_predictions() -> None:
    prediction = predict(X[:0])
    assert prediction.mean.shape == prediction.std.shape == (0, 1)
    assert [bound.shape for bound in prediction.interval()] == [(0, 1), (0, 1)]


def test_one_sample_is_sure_of_itself() -> None:
    prediction = predict(samples=1)
    assert torch.equal(prediction.epistemic, torch.zeros(10, 1))
    assert (prediction.aleatoric > 0.0).all()
    torch.testing.assert_close(prediction.mnll(Y), prediction.expected_nll(Y))


def test_constant_features_say_nothing() -> None:
    x = torch.cat([X[:, :2], torch.full((10, 1), 7.0)], 1)
    network = model()
    whvi.fit(network, Gaussian(), (x, Y), steps=20)
    assert whvi.predict(network, x).mean.isfinite().all()
