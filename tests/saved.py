"""Everything that the library saves to a folder, made small: for hostile folders, and for those of old versions."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import whvi
from whvi.adapters import adapt, load_adapter, save_adapter
from whvi.convert import bayesianize, load_model, save_model
from whvi.ensemble import Ensemble
from whvi.inference import Checkpoint, Progress
from whvi.likelihoods import Gaussian
from whvi.nn import WHVILinear
from whvi.sklearn import WHVIClassifier, WHVIRegressor
from whvi_tables import folder
from whvi_tables.fitting import Model, fit_table
from whvi_tables.predicting import predict_table
from whvi_tables.reading import Table
from whvi_tables.settings import Settings

X = np.random.RandomState(0).randn(40, 3)
QUICK: dict[str, Any] = {"hidden_layer_sizes": (16,), "max_steps": 5, "random_state": 0, "samples": 2}
FEATURES = torch.arange(64.0).reshape(4, 16).cos()
STEPS = 3


class Kind(NamedTuple):
    """Something that is saved to a folder."""

    make: Callable[[Path], object]
    load: Callable[[Path], Any]
    predict: Callable[[Any], Any]
    """Numbers that depend on all that was saved."""
    places: tuple[str, ...] = (".",)
    """Folders below it that are checkpoints, and files of JSON under a checksum."""


def fixed(model: nn.Module) -> nn.Module:
    """The model with numbers that need no generator: they are the same in every version of torch."""
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            parameter.copy_(0.1 * torch.arange(1.0 + place, 1.0 + place + parameter.numel()).cos().view_as(parameter))
    return model


def base() -> nn.Module:
    """A trained model, so to speak."""
    return fixed(nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16)))


def mean_of(model: nn.Module) -> Tensor:
    """Its output without noise."""
    with torch.no_grad(), whvi.mean_mode(model):
        output: Tensor = model(FEATURES)
    return output


def frame() -> pd.DataFrame:
    """A table with numbers, categories and dates, each written in a way of its own."""
    days = pd.Series(["05/01/2024"] * 40).where(np.arange(40) > 9, "31/01/2023")
    price = [f"€ {1000 + place:,}.50" for place in range(40)]
    return pd.DataFrame({"x": X[:, 0], "price": price, "town": ["Ulm", "Bonn"] * 20, "day": days, "y": X[:, 1]})


def make_table(path: Path) -> None:
    """A model folder."""
    folder.save(fit_table(Table(frame()), Settings("y", steps=5, hidden=(8,)), lambda _: None), path)


def of_table(model: Model) -> np.ndarray[Any, Any]:
    """Its predictions."""
    return predict_table(model, model.columns.matrix(frame().iloc[:5]).values, 0.9).to_numpy()


def run(path: Path, steps: int = STEPS) -> nn.Module:
    """A run with a checkpoint, or what is left of it."""
    data = torch.from_numpy(X[:, :2]).float(), torch.from_numpy(X[:, 2:]).float()
    model = fixed(WHVILinear(2, 1))
    torch.manual_seed(0)
    whvi.fit(model, Gaussian(), data, steps=steps, callbacks=[Progress(False), Checkpoint(path)])
    return model


def make_member() -> nn.Module:
    """Of an ensemble."""
    return nn.Sequential(WHVILinear(16, 8), nn.Tanh(), nn.Linear(8, 1))


def save_ensemble(path: Path) -> None:
    """Two members that differ."""
    members = [fixed(make_member()) for _ in range(2)]
    torch.nn.init.constant_(members[1][2].bias, 3.0)  # type: ignore[index, arg-type, union-attr]
    Ensemble(members, Gaussian()).save(path)


KINDS = {
    "regressor": Kind(
        lambda path: WHVIRegressor(**QUICK, n_members=1, posterior="low_rank:2").partial_fit(X, X[:, :2]).save(path),
        WHVIRegressor.load,
        lambda model: model.predict(X[:5]),
    ),
    "members": Kind(
        lambda path: WHVIRegressor(**QUICK, n_members=2).fit(X, X[:, 0]).save(path),
        WHVIRegressor.load,
        lambda model: model.predict(X[:5]),
    ),
    "classifier": Kind(
        lambda path: WHVIClassifier(**QUICK, n_members=1).fit(X, np.where(X[:, 0] > 0, "up", "down")).save(path),
        WHVIClassifier.load,
        lambda model: model.predict_proba(X[:5]),
    ),
    "adapter": Kind(
        lambda path: save_adapter(fixed_delta(), path),
        lambda path: load_adapter(base(), path),
        mean_of,
    ),
    "run": Kind(run, run, lambda model: torch.cat([tensor.flatten() for tensor in model.state_dict().values()])),
    "table": Kind(make_table, folder.load, of_table, ("estimator", "columns.json")),
}
"""What a hostile folder may be of."""

MORE_KINDS = {
    "ensemble": Kind(
        save_ensemble,
        lambda path: Ensemble.load(path, make_member, Gaussian()),
        lambda ensemble: whvi.predict(ensemble, FEATURES, 4, seed=0).mean,
    ),
    "model": Kind(
        lambda path: save_model(bayesianize(base(), init="prior").model, path),
        partial(load_model, base()),
        mean_of,
    ),
}


def fixed_delta() -> nn.Module:
    """An adapter whose mean is not zero."""
    model: nn.Module = adapt(base(), posterior="low_rank:2", structure="SHGPHS").model
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and name.endswith("mean"):
                parameter.add_(0.1)
    return model
