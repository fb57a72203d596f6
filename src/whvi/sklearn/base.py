"""The base class of both estimators: parameters, training, prediction of standardised targets, saving."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from whvi.ensemble import Ensemble
from whvi.errors import ArgumentError
from whvi.inference import member_seeds, posterior_as_prior
from whvi.inference.seeds import mix
from whvi.likelihoods import Likelihood
from whvi.predictive import Prediction, predict
from whvi.scaling import Array, Scaling
from whvi.sklearn import saving
from whvi.sklearn.defaults import default_terms
from whvi.sklearn.held_out import held_out
from whvi.sklearn.parameters import Parameters, checked
from whvi.sklearn.rows import Rows
from whvi.sklearn.training import (
    FROZEN_STEPS,
    Curves,
    Member,
    OptimizerState,
    Training,
    TrainingData,
    go_on,
    make_network,
    train,
)

PRIORS = ("first", "posterior")
"""Of ``partial_fit``: that of the network, or what the rows before have left."""


class WHVIEstimator(BaseEstimator):  # type: ignore[misc]
    """A Bayesian neural network for a table, with its predictive distribution.

    Columns are standardised internally; equal rows are merged and their weights added, so a row of weight w is w rows.
    """

    model_: nn.Module
    likelihood_: Likelihood
    history_: Curves
    n_features_in_: int
    n_rows_seen_: float
    seed_: int
    x_scaling_: Scaling
    y_scaling_: Scaling
    _architecture: dict[str, Any]
    _optimizer: OptimizerState | None
    _groups: int | None = None  # of members that leave out the same rows to calibrate by; None for each by itself

    def __init__(
        self,
        hidden_layer_sizes: tuple[int, ...] = (128, 128),
        *,
        n_members: int = 8,
        posterior: str = "diagonal",
        terms: int | None = None,
        layout: str = "stack",
        block: int | None = None,
        calibrate: bool = True,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 2e-2,
        samples: int = 64,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        compile: bool | str = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_members = n_members
        self.posterior = posterior
        self.terms = terms
        self.layout = layout
        self.block = block
        self.calibrate = calibrate
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.samples = samples
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.compile = compile
        self.random_state = random_state
        self.verbose = verbose

    def save(self, path: str | PathLike[str]) -> None:
        """Save the fitted estimator to a folder: tensors and JSON with checksums, atomically, without pickle.

        A ``random_state`` that is a generator is saved as None.
        """
        check_is_fitted(self)
        saving.save(self, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load an estimator of ``save``; CheckpointError if the folder is damaged or belongs to another estimator.

        Law: its predictions are bitwise identical.
        """
        return saving.load(cls, path)

    @abstractmethod
    def _make_likelihood(self) -> Likelihood:
        """For the targets of a fit that has begun."""

    @abstractmethod
    def _scaling_of(self, rows: Rows) -> Scaling:
        """Of the targets."""

    @abstractmethod
    def _as_targets(self, y: Array) -> Tensor:
        """Standardised targets (N, outputs) as the likelihood takes them."""

    @contextmanager
    def _whole_or_as_before(self) -> Iterator[None]:
        """A fit that fails leaves the estimator as it was."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _weights(self, x: Array, sample_weight: Any) -> Array:
        """(N,), not negative and not all zero."""
        weight: Array = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        if not (weight > 0.0).any():
            raise ArgumentError("sample_weight is zero for all rows; give positive weights")
        return weight

    def _fit_rows(self, rows: Rows) -> Self:
        parameters = checked(self)
        self._begin(rows, parameters)
        training = self._training(rows, parameters)
        members = self._members()
        held = held_out(len(rows), parameters, len(members), self.seed_, self._groups)
        looks = self._data(rows[held[0]]) if parameters.early_stopping else None
        data = [self._data(rows[~one]) for one in held]
        for _, likelihood in members:
            likelihood.frozen_steps = min(FROZEN_STEPS, training.steps // 10)
        self._record(train(members, data if len(data) > 1 else data * len(members), looks, training))
        self._take(members)
        self.n_rows_seen_ = float(rows.weight[~np.all(held, axis=0)].sum())
        self._finish()
        if parameters.calibrate and held[0].any():
            self._calibrate(rows, held)
        return self

    @abstractmethod
    def _calibrate(self, rows: Rows, held: list[Array]) -> None:
        """Set how sure predictions are by rows that were not trained on."""

    def _partial_fit_rows(self, rows: Rows, prior: str) -> Self:
        parameters = checked(self)
        if prior not in PRIORS:
            raise ArgumentError(f"prior must be one of {', '.join(map(repr, PRIORS))}, got {prior!r}")
        first = not hasattr(self, "model_")
        if first:
            self._begin(rows, parameters)
        if prior == "posterior":
            return self._fit_part(rows, parameters, first=first)
        self.n_rows_seen_ += float(rows.weight.sum())
        members, state = self._members(), deepcopy(self._optimizer)
        data, training = self._data(rows), self._training(rows, parameters)
        found, self._optimizer = go_on(members, [data] * len(members), self.n_rows_seen_, training, state)
        self._record(found)
        self._take(members)
        self._finish()
        return self

    def _fit_part(self, rows: Rows, parameters: Parameters, *, first: bool) -> Self:
        """Fit to a part of the rows alone, under the posterior of the parts before it."""
        members, training = self._members(), self._training(rows, parameters)
        if not first:  # a KL of no weight would let go of what the parts before have told
            training = replace(training, warm_up=0.0)
            for model, likelihood in members:
                posterior_as_prior(model, likelihood)
        self._record(train(members, [self._data(rows)] * len(members), None, training))
        for module in (module for member in members for module in member):
            module.requires_grad_(True)
        self._take(members)
        self._architecture = {**self._architecture, "last": not first}
        self.n_rows_seen_ += float(rows.weight.sum())
        self._finish()
        return self

    def _begin(self, rows: Rows, parameters: Parameters) -> None:
        """A new network for such rows."""
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.x_scaling_, self.y_scaling_ = Scaling.of(rows.x, rows.weight), self._scaling_of(rows)
        self.history_ = {"step": [], "elbo": [], "validation_mnll": []}
        self.n_rows_seen_ = 0.0
        names = ("hidden_layer_sizes", "n_members", "posterior", "terms", "layout", "block", "noise")
        self._architecture = {**{name: getattr(parameters, name) for name in names}, "pad_to": "order"}
        self._architecture["terms"] = parameters.terms or default_terms(len(rows))
        self._optimizer = None
        self._build()

    def _build(self) -> None:
        """The likelihood and the network of the architecture, before any training."""
        hidden, posterior = self._architecture["hidden_layer_sizes"], self._architecture["posterior"]
        before = {"terms": 1, "layout": "stack", "block": None, "pad_to": "power_of_two"}  # of version 0.1
        weight = {name: self._architecture.get(name, value) for name, value in before.items()}
        count = self._architecture.get("n_members", 1)
        seeds = [self.seed_] if count == 1 else member_seeds(self.seed_, count)
        laws = [self._make_likelihood() for _ in seeds]
        inputs = self.n_features_in_
        pairs = zip(seeds, laws, strict=True)
        members: list[Member] = [
            (make_network(inputs, hidden, law, posterior, seed, **weight), law) for seed, law in pairs
        ]
        if self._architecture.get("last", False):  # of a file: the priors have their places
            for model, _ in members:
                posterior_as_prior(model, freeze=False)
        self._take(members)

    def _members(self) -> list[Member]:
        """Copies of the networks and their likelihoods, in single precision, to be trained."""
        members: list[Member]
        if isinstance(self.model_, Ensemble):
            members = [self.model_.pair(member) for member in range(len(self.model_))]
        else:
            members = [deepcopy((self.model_, self.likelihood_))]
        return [(model.float().train(), likelihood.float()) for model, likelihood in members]

    def _take(self, members: list[Member]) -> None:
        """Make these networks those of the estimator."""
        for _, likelihood in members:
            likelihood.frozen_steps = 0  # that was for the beginning
        if len(members) == 1:
            ((self.model_, self.likelihood_),) = members
            return
        models, likelihoods = zip(*members, strict=True)
        ensemble = Ensemble(models, likelihoods)
        together = ensemble.likelihood()
        assert together is not None
        self.model_, self.likelihood_ = ensemble, together

    def _training(self, rows: Rows, parameters: Parameters) -> Training:
        return Training.of(parameters, len(rows), mix(self.seed_, "training", self._steps_done()))

    def _steps_done(self) -> int:
        return int(self.history_["step"][-1]) if self.history_["step"] else 0

    def _record(self, found: Curves) -> None:
        """Add the curves of a run to the history, with densities of targets as they are, not standardised."""
        volume, before = self.y_scaling_.log_volume, self._steps_done()
        more = {
            "step": [before + step for step in found["step"]],
            "elbo": found["elbo"],
            "validation_mnll": [value + volume for value in found["validation_mnll"]],
        }
        # Build new lists, so that a failed fit leaves history_ unchanged.
        self.history_ = {name: values + more[name] for name, values in self.history_.items()}

    def _finish(self) -> None:
        """Training is in single precision, prediction in double: so no number depends on how rows are batched."""
        self.model_.double().eval()
        self.likelihood_.double().eval()

    def _data(self, rows: Rows) -> TrainingData:
        x, weight = self.x_scaling_.forward(rows.x), torch.from_numpy(rows.weight).float()
        return TrainingData(torch.from_numpy(x).float(), self._as_targets(self.y_scaling_.forward(rows.y)), weight)

    def _predict(
        self, X: Any, samples: int | None = None, seed: int | None = None, method: str = "samples"
    ) -> Prediction:
        """The distribution of the standardised targets of X: the same functions at each call."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, dtype=np.float64)
        count = checked(self).samples if samples is None else samples
        return self._law(x, count, mix(self.seed_, "prediction") if seed is None else seed, method)

    def _law(self, x: Array, samples: int, seed: int, method: str = "samples", member: int | None = None) -> Prediction:
        """The distribution of the standardised targets of checked rows; of all members together, or of one."""
        inputs = torch.from_numpy(self.x_scaling_.forward(x))
        model, likelihood = self.model_, self.likelihood_
        if isinstance(model, Ensemble):
            if member is None:  # members have likelihoods of their own
                return predict(model, inputs, samples, seed=seed, method=method)
            model, likelihood = model.pair(member)
        return predict(model, inputs, samples, likelihood=likelihood, seed=seed, method=method)
