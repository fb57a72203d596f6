"""Models that return objects, mappings and tuples: the same bits as one that returns the tensor."""

from collections import OrderedDict
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from whvi.errors import ArgumentError, InputTypeError
from whvi.inference import elbo, fit, fit_ensemble
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear, WithOutput
from whvi.predictive import Ensemble, predict

X = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
Y = X[:, :1]


class Found(NamedTuple):
    hidden: Tensor
    logits: Tensor


@dataclass
class Thing:
    hidden: Tensor
    logits: Tensor | None = None


class Ordered(OrderedDict[str, Any]):
    """As the outputs of Hugging Face: a mapping whose items are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Net(nn.Module):
    """Returns what it is told to."""

    def __init__(self, give: Callable[[Tensor], Any], bayesian: bool = True) -> None:
        super().__init__()
        self.give = give
        self.layer: nn.Module = WHVILinear(3, 1) if bayesian else nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Any:
        return self.give(self.layer(x))


def plain(f: Tensor) -> Tensor:
    return f


def hidden(found: Any) -> Tensor:
    value: Tensor = found["hidden"] if isinstance(found, dict) else found.hidden
    return value


FORMS: dict[str, Callable[[Tensor], Any]] = {
    "tuple": lambda f: (f, (f + 1, f + 2)),
    "list": lambda f: [f],
    "named tuple": lambda f: Found(f + 1, f),
    "mapping": lambda f: {"loss": None, "logits": f},
    "mapping with attributes": lambda f: Ordered(hidden=f + 1, logits=f),
    "object": lambda f: Thing(f + 1, f),
}
OTHERS: dict[str, Callable[[Tensor], Any]] = {
    "mapping": lambda f: {"hidden": f},
    "object": lambda f: Thing(f),
    "named tuple": lambda f: Found(f, f + 1),
}
CASES = [(give, None) for give in FORMS.values()] + [(give, hidden) for give in OTHERS.values()]
IDS = [*FORMS, *(f"{name} and output" for name in OTHERS)]


def nets(give: Callable[[Tensor], Any], bayesian: bool = True) -> tuple[Net, Net]:
    torch.manual_seed(0)
    one, other = Net(plain, bayesian), Net(give, bayesian)
    other.load_state_dict(one.state_dict())
    return one, other


@pytest.mark.parametrize(("give", "output"), CASES, ids=IDS)
def test_fit_and_predict_take_the_tensor(give: Callable[[Tensor], Any], output: Callable[[Any], Tensor] | None) -> None:
    one, other = nets(give)
    likelihoods = Gaussian(), Gaussian()
    first = fit(one, likelihoods[0], (X, Y), steps=4)
    again = fit(other, likelihoods[1], (X, Y), steps=4, output=output)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    expected = first.predict(X, 5, seed=0).mean
    assert torch.equal(again.predict(X, 5, seed=0).mean, expected)
    assert torch.equal(predict(other, X, 5, seed=0, likelihood=likelihoods[1], output=output).mean, expected)
    bounds = []
    for model, read in ((one, None), (other, output)):
        torch.manual_seed(1)
        bounds.append(elbo(model, likelihoods[0], X, Y, n_data=9, output=read).bound)
    assert torch.equal(*bounds)


@pytest.mark.parametrize(("give", "output"), CASES, ids=IDS)
def test_ensembles_take_the_tensor(give: Callable[[Tensor], Any], output: Callable[[Any], Tensor] | None) -> None:
    found = []
    for i, read in ((0, None), (1, output)):
        make = partial(deepcopy, nets(give, bayesian=False)[i])
        result = fit_ensemble(make, Gaussian(), (X, Y), members=2, steps=4, output=read)
        found.append(result.predict(X).samples())
    assert torch.equal(*found)


def test_an_ensemble_has_its_outputs() -> None:
    model = Net(OTHERS["object"])
    with pytest.raises(ArgumentError, match=r"whvi.nn.WithOutput"):
        predict(Ensemble([model]), X, output=hidden)
    assert predict(Ensemble([WithOutput(model, hidden)]), X, 3).mean.shape == (9, 1)


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda f: {"hidden": f}, "got dict with hidden; give output="),
        (lambda f: Thing(f), "got Thing; give output="),
        (lambda f: (), "got tuple"),
        (lambda f: ("text", f), "got tuple"),
        (lambda f: None, "got NoneType"),
    ],
    ids=["mapping", "object", "empty", "tuple", "nothing"],
)
def test_what_holds_no_tensor_is_named(give: Callable[[Tensor], Any], message: str) -> None:
    with pytest.raises(InputTypeError, match=message):
        elbo(Net(give), Gaussian(), X, Y, n_data=9)
    with pytest.raises(InputTypeError, match=message):
        predict(Net(give), X)
