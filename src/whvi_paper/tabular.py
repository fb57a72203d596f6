"""Methods that turn a table into a predictive distribution: ``WHVIRegressor`` and its rivals, each with its defaults.

How each rival gets a density and an interval is said at its function.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from whvi.errors import MissingPackageError
from whvi.inference import MAP, Constant, CosineDecay, Progress, fit_ensemble
from whvi.inference.compiled import can_compile
from whvi.likelihoods import Gaussian
from whvi.predictive import crps_gaussian, crps_samples, predict
from whvi.scaling import Scaling
from whvi.sklearn import WHVIRegressor
from whvi.sklearn.defaults import default_steps
from whvi.sklearn.training import COMPILED_STEPS

LEVEL, GP_ROWS = 0.9, 1000
HALF_WIDTH = 1.6448536269514722
"""Of the central 90 % of a standard normal."""
MEMBERS = 5
"""Of the deep ensemble."""
Array = NDArray[np.float64]


class Forecast(NamedTuple):
    """The predictions of a method for test rows: each field (rows,), except the score."""

    mean: Array
    log_prob: Array
    """Of the true targets."""
    low: Array
    high: Array
    crps: float
    """Mean over rows, in the unit of the target."""


Method = Callable[[Array, Array, int], Callable[[Array, Array], Forecast]]
"""Training rows, targets and a seed -> a fitted model: test rows and their targets -> what it says of them."""


def gaussian(mean: Array, std: Array, y: Array) -> Forecast:
    """A normal distribution for each row."""
    log_prob = -0.5 * np.square((y - mean) / std) - np.log(std) - 0.5 * np.log(2 * np.pi)
    score = float(crps_gaussian(*map(torch.from_numpy, (mean, std, y))))
    return Forecast(mean, log_prob, mean - HALF_WIDTH * std, mean + HALF_WIDTH * std, score)


def whvi(x: Array, y: Array, seed: int, members: int | None = None) -> Callable[[Array, Array], Forecast]:
    """WHVIRegressor with its defaults except the members: density and interval of the predictive mixture."""
    model = WHVIRegressor(random_state=seed)
    if members is not None:
        model.set_params(n_members=members)
    model.fit(x, y)

    def say(test_x: Array, test_y: Array) -> Forecast:
        ends = model.predict_interval(test_x, LEVEL)
        return Forecast(model.predict(test_x), model.log_prob(test_x, test_y), *ends, model.crps(test_x, test_y))

    return say


@dataclass(frozen=True)
class Deep:
    """How a deep ensemble is trained."""

    hidden: tuple[int, ...] = (128, 128)
    epochs: int | None = 40
    """Passes over the rows, or None for as many steps as WHVIRegressor takes."""
    batch_size: int = 64
    rate: float = 1e-2
    cosine: bool = True


DEEP = Deep()
"""Chosen on held-out training rows of yacht and concrete, by ``benchmarks/estimator_defaults.py``."""
PUBLISHED = Deep((50,), 40, 100, 0.1, cosine=False)
"""The setting in which deep ensembles were published, for fewer than 40,000 rows (Lakshminarayanan et al., 2017)."""


def deep_ensemble(x: Array, y: Array, seed: int, how: Deep = DEEP) -> Callable[[Array, Array], Forecast]:
    """Five plain networks that give a mean and a variance, by MAP; the mixture of their normal distributions."""
    x_scaling, y_scaling = Scaling.of(x), Scaling.of(y[:, None])
    steps = default_steps(len(x)) if how.epochs is None else how.epochs * -(-len(x) // how.batch_size)
    sizes = (x.shape[1], *how.hidden)

    def network() -> nn.Module:
        hidden = [part for i, o in pairwise(sizes) for part in (nn.Linear(i, o), nn.ReLU())]
        return nn.Sequential(*hidden, nn.Linear(sizes[-1], 2))

    result = fit_ensemble(
        network,
        Gaussian(1, "input", variance=1.0),
        (torch.from_numpy(x_scaling.forward(x)).float(), torch.from_numpy(y_scaling.forward(y[:, None])).float()),
        members=MEMBERS,
        steps=steps,
        algorithm=MAP(how.rate, schedule=CosineDecay(steps) if how.cosine else Constant()),
        batch_size=how.batch_size,
        seed=seed,
        callbacks=[Progress(False)],
        compile=can_compile() and steps >= COMPILED_STEPS,
    )

    def say(test_x: Array, test_y: Array) -> Forecast:
        found = predict(result.posterior.double(), torch.from_numpy(x_scaling.forward(test_x)), MEMBERS, seed=seed)
        z = torch.from_numpy(y_scaling.forward(test_y[:, None]))
        low, high = (y_scaling.back(end.numpy())[:, 0] for end in found.interval(LEVEL))
        drawn = predict(result.posterior, torch.from_numpy(x_scaling.forward(test_x)), 250, seed=seed).sample_y(250)
        score = float(crps_samples(drawn, z)) * float(y_scaling.scale[0])
        log_prob = found.log_prob(z).numpy() - y_scaling.log_volume
        return Forecast(y_scaling.back(found.mean.numpy())[:, 0], log_prob, low, high, score)

    return say


def gaussian_process(x: Array, y: Array, seed: int) -> Callable[[Array, Array], Forecast]:
    """RBF with a length for each feature, and white noise, on at most 1,000 random training rows; its own density."""
    chosen = np.random.RandomState(seed).permutation(len(x))[:GP_ROWS]
    kernel = ConstantKernel() * RBF(np.ones(x.shape[1])) + WhiteKernel()
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: the feature is not used
        model.fit(x[chosen], y[chosen])

    def say(test_x: Array, test_y: Array) -> Forecast:
        mean, std = model.predict(test_x, return_std=True)
        return gaussian(mean, std, test_y)

    return say


def gradient_boosting(x: Array, y: Array, seed: int) -> Callable[[Array, Array], Forecast]:
    """HistGradientBoosting. The interval: two models with quantile loss.

    The density: a normal one around the model with squared error, whose standard deviation is that of the errors on a
    fifth of the training rows, by a model of the others; then it is fitted to all of them.
    """
    part_x, apart_x, part_y, apart_y = train_test_split(x, y, test_size=0.2, random_state=seed)
    model = HistGradientBoostingRegressor(random_state=seed)
    std = np.sqrt(np.mean(np.square(model.fit(part_x, part_y).predict(apart_x) - apart_y)))
    model.fit(x, y)
    low, high = (
        HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=seed).fit(x, y)
        for level in (0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL)
    )

    def say(test_x: Array, test_y: Array) -> Forecast:
        mean = model.predict(test_x)
        found = gaussian(mean, np.full_like(mean, std), test_y)
        ends = np.sort([low.predict(test_x), high.predict(test_x)], axis=0)  # two models may cross
        return found._replace(low=ends[0], high=ends[1])

    return say


def natural_gradient_boosting(x: Array, y: Array, seed: int) -> Callable[[Array, Array], Forecast]:
    """NGBoost with its defaults: 500 trees of depth 3 for mean and log standard deviation; its own normal density."""
    try:
        from ngboost import NGBRegressor
    except ModuleNotFoundError as error:
        raise MissingPackageError("this method needs NGBoost; install it with: pip install 'whvi[rivals]'") from error
    model = NGBRegressor(verbose=False, random_state=seed).fit(x, y)

    def say(test_x: Array, test_y: Array) -> Forecast:
        found = model.pred_dist(test_x).params
        return gaussian(np.asarray(found["loc"]), np.asarray(found["scale"]), test_y)

    return say
