"""``whvi.fit``: fit a model with a likelihood to data; and the same for many models at once."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import nn
from torch.utils.data import DataLoader

from whvi import rows as of
from whvi.annotations import checked, checked_but
from whvi.arguments import any_whole_number, whole_number
from whvi.ensemble import Ensemble
from whvi.errors import ArgumentError, InputTypeError
from whvi.inference.algorithm import Algorithm, Members, Run
from whvi.inference.batches import Batches, StackedBatches, TensorBatches, Transform, digest, split
from whvi.inference.callbacks import Callback, Checkpoint, EarlyStopping, History, Progress
from whvi.inference.callbacks.base import check_names
from whvi.inference.loaders import LoaderBatches
from whvi.inference.loop import Loop, training
from whvi.inference.old_keywords import OldKeywords, OldReplicasKeywords, in_new_words
from whvi.inference.replicas import check_settings
from whvi.inference.resuming import Part
from whvi.inference.seeds import mix
from whvi.inference.streams import start_from
from whvi.inference.svi import SVI
from whvi.likelihoods import Likelihood
from whvi.nn.anatomy import anatomy, describe
from whvi.nn.outputs import Output, with_output
from whvi.nn.parts import check_model_precision
from whvi.rows import Inputs

if TYPE_CHECKING:
    from whvi.predictive import Prediction

Data = Sequence[Any] | Mapping[str, Any]
"""Inputs and targets in memory: (x, y), (x1, x2, ..., y), or a mapping by name."""


@dataclass(frozen=True)
class Fit:
    """The result of a fit."""

    posterior: nn.Module
    """The object that predicts: the given model (with its ``output``), or an ``Ensemble`` of sampled or
    trained networks."""
    history: History
    run: Run
    seconds: float
    """Seconds of this call, without steps that a checkpoint already had."""
    likelihood: Likelihood | None = None
    """Of the model; None if the posterior is an ensemble, which has its own."""

    def predict(self, x: Inputs, samples: int | None = None, **options: Any) -> "Prediction":
        """``whvi.predict`` with the posterior and the likelihood of this fit.

        Args:
            x: (N, ...), or several such tensors in a tuple or dict.
            samples: the number of draws; None for the default of ``whvi.predict``.
            options: of ``whvi.predict``.
        """
        from whvi.predictive import predict  # data go from inference to prediction; here alone they come back

        own = {} if isinstance(self.posterior, Ensemble) else {"likelihood": self.likelihood}
        return predict(self.posterior, x, samples, **{**own, **options})


@checked_but("data")
def fit(
    model: nn.Module,
    likelihood: Likelihood,
    data: "Data | DataLoader[Any]",
    *,
    steps: int,
    algorithm: Algorithm | None = None,
    batch_size: int = 64,
    n_data: int | None = None,
    target: str | int | None = None,
    seed: int = 0,
    transform: Transform | None = None,
    output: Output | None = None,
    callbacks: Sequence[Callback] = (),
    compile: bool = False,
    prior: nn.Module | None = None,
    **old: Unpack[OldKeywords],
) -> Fit:
    """Fit a model, in place.

    Args:
        model: maps inputs to the parameters of the likelihood.
        likelihood: the distribution of targets; its noise is learned jointly.
        data: (x, y) tensors, or (x1, x2, ..., y), or a dict of tensors with a target; or a DataLoader of these. Several
            inputs are passed as arguments of the model, those of a dict as keywords. x may also be a tuple or a dict.
        steps: the number of updates. A run that is resumed with more steps continues, unless it stopped early.
        algorithm: ``SVI()`` by default; or ``MAP()``, ``SGHMC()``, ``Distributed(SVI())``, or your own.
        batch_size: rows of a step, for tensors; all rows if there are fewer.
        n_data: rows of the whole dataset, for a DataLoader without a length.
        target: the key of the targets in a dict, or their index in a tuple; default "labels", or the last element.
        seed: of batches and noise: the same seed is bitwise reproducible on the same machine, for one fit at a time
            (torch has one generator for all threads).
        transform: of the inputs of each batch, such as augmentation; for tensors, which may then be of any dtype. It
            may draw from torch's generator. A checkpoint checks it, so make it a dataclass.
        output: maps the return value of the model to the tensor for the likelihood; default the tensor itself, an
            object's ``logits``, or the first element of a tuple. The posterior of the result has it.
        callbacks: actions in addition to the steps: ``Checkpoint(folder)``, ``EarlyStopping(validation=(x, y))``,
            ``Every(100, function)``, ``History(every=10)``, ``Progress(show=False)``, ``TensorBoard(folder)``, or your
            own subclass of ``Callback``. In a terminal the progress bar is shown by default.
        compile: compile the step with torch's Inductor and a C++ compiler, for ``SVI()`` and ``MAP()`` and
            layers that do not draw from torch's own generator. It takes about ten seconds; results differ by rounding.
        prior: a fitted model of the same architecture, or this one: its posterior becomes the prior and the initial
            posterior, and other parameters are frozen, as in ``posterior_as_prior``. For data that arrive in parts.
        old: keywords of version 0.1, which are now callbacks.

    >>> from whvi.likelihoods import Gaussian
    >>> from whvi.nn import WHVILinear
    >>> x = torch.randn(100, 4)
    >>> result = fit(WHVILinear(4, 1), Gaussian(), (x, x.sum(1)), steps=50)
    >>> len(result.history.elbo)
    50
    """
    check_modules(model, likelihood)
    if prior is not None:
        start_from(prior, model, likelihood)
    model = with_output(model, output)
    seed = any_whole_number("seed", seed)
    algorithm, more = in_new_words("fit", algorithm, old) if old else (algorithm, [])
    history, all_callbacks = _callbacks([*callbacks, *more])
    algorithm = SVI() if algorithm is None else algorithm
    if not isinstance(algorithm, Algorithm):
        raise InputTypeError(f"algorithm must be one such as SVI(), got {algorithm!r}")
    batches: Batches
    if isinstance(data, DataLoader):
        if transform is not None:
            raise ArgumentError("transform needs tensors; transform rows in the dataset of the DataLoader")
        batches = LoaderBatches(data, likelihood, n_data, seed, target)
    else:
        if n_data is not None:
            raise ArgumentError("n_data is for a DataLoader; tensors contain all rows")
        x, y = split("data", data, target)
        batches = TensorBatches(x, y, likelihood, batch_size, seed, algorithm.replacement, transform)
        _check_row(batches, model)
    algorithm.check_call(whole_number("steps", steps), any(isinstance(c, EarlyStopping) for c in all_callbacks))
    with torch.random.fork_rng():
        torch.manual_seed(mix(seed, "init"))
        start = algorithm.init_compiled if compile else algorithm.init
        run = start(model, likelihood, batches.n_data)

    def identity() -> dict[str, Any]:
        own = {} if transform is None else {"transform": describe(transform)}
        settings = {"algorithm": algorithm.described(), "seed": seed, "data": batches.identity(), **own}
        return settings | run.identity() | _anatomy(model, likelihood) | {"fixed": digest(*likelihood.buffers())}

    loop = Loop(
        run=run,
        batches=batches,
        steps=steps,
        seed=seed,
        modules={"model": model, "likelihood": likelihood},
        parts=[Part("", model, likelihood, seed)],
        noise=lambda: likelihood.noise,
        identity=identity,
        history=history,
        callbacks=all_callbacks,
    )
    return _go(loop, likelihood)


@checked
def fit_replicas(
    models: Sequence[nn.Module],
    likelihoods: Sequence[Likelihood],
    data: Sequence[Data],
    *,
    steps: int,
    algorithm: Algorithm | Sequence[Algorithm] | None = None,
    batch_size: int = 64,
    seeds: Sequence[int] | None = None,
    output: Output | None = None,
    callbacks: Sequence[Callback] = (),
    compile: bool = False,
    **old: Unpack[OldReplicasKeywords],
) -> Fit:
    """Fit R models of one architecture at once, in place: each on its own data, with its own seed and learning rate.

    Args:
        models, likelihoods: R of each.
        data: R pairs (x, y), or as for ``fit``, with rows of one shape; the number of rows may differ. A batch is at
            most as large as the smallest.
        algorithm: ``SVI()``, ``MAP()`` or another that has ``init_replicas``, for all; or one for each replica, of one
            kind, which may differ in ``replica_settings`` only: the learning rate and, for the first two, its schedule.
        seeds: one for each replica; default 0, 1, ...
        steps, batch_size, output, callbacks, old: as for ``fit``; there is no early stopping.
        compile: compile the step with torch's Inductor and a C++ compiler. It takes about ten seconds, and
            then a step of small networks takes a half to a quarter of the time; results differ by rounding. For
            ``SVI()`` and ``MAP()``, and layers that do not draw from torch's own generator.

    The result's posterior is an ``Ensemble`` of the R models; each of ``models`` is also fitted in place.

    Law: each model ends with the parameters that ``fit`` gives it alone, with its seed and batch size, within rounding.
    Modules that draw from torch's own generator (nn.Dropout) are the exception: their draws differ.
    """
    _, more = in_new_words("fit_replicas", None, old)
    history, all_callbacks = _callbacks([*callbacks, *more])
    count = len(models)
    if isinstance(algorithm, str):
        raise InputTypeError(f"algorithm must be one such as SVI(), or one for each replica, got {algorithm!r}")
    settings = list(algorithm) if isinstance(algorithm, Sequence) else [algorithm or SVI()] * count
    seeds = list(range(count)) if seeds is None else [any_whole_number("seeds", seed) for seed in seeds]
    if count == 0 or not count == len(likelihoods) == len(data) == len(settings) == len(seeds):
        raise ArgumentError(
            f"each replica needs a model, a likelihood, data, settings and a seed, got {count}, {len(likelihoods)}, "
            f"{len(data)}, {len(settings)} and {len(seeds)} of them"
        )
    for pair in zip(models, likelihoods, strict=True):
        check_modules(*pair)
    models = [with_output(model, output) for model in models]
    pairs = [split("data", one) for one in data]
    batches = StackedBatches(pairs, likelihoods[0], batch_size, seeds)
    for model, (x, _) in zip(models, pairs, strict=True):
        check_model_precision(x, model)
    check_settings(settings)
    run = type(settings[0]).init_replicas(settings, Members(models, likelihoods, batches.counts, seeds), compile)

    def identity() -> dict[str, Any]:
        fixed = [digest(*likelihood.buffers()) for likelihood in likelihoods]
        own = {"algorithm": describe(settings), "seeds": seeds, "data": batches.identity()}
        return own | _anatomy(models[0], likelihoods[0]) | {"fixed": fixed}

    replicas = enumerate(zip(models, likelihoods, seeds, strict=True))
    loop = Loop(
        run=run,
        batches=batches,
        steps=steps,
        seed=seeds[0],
        modules={},
        parts=[Part(f"{r}.", *own) for r, own in replicas],
        noise=run.noise,
        identity=identity,
        history=history,
        callbacks=all_callbacks,
    )
    return _go(loop, None)


def check_modules(model: object, likelihood: object) -> None:
    """Raise InputTypeError unless they are a model and a likelihood."""
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(likelihood, Likelihood):
        raise InputTypeError(
            f"likelihood must be one of whvi.likelihoods, such as Gaussian(), got {type(likelihood).__name__}"
        )


def _anatomy(model: nn.Module, likelihood: Likelihood) -> dict[str, Any]:
    """The modules and settings of both, for the checks of a checkpoint."""
    return {**anatomy(model), **anatomy(likelihood, "likelihood")}


def _check_row(batches: TensorBatches, model: nn.Module) -> None:
    """Raise an error unless the model accepts a transformed row of this dtype."""
    with torch.random.fork_rng():  # a transform may draw
        row = of.mapped(torch.clone, of.take(batches.x, slice(1)))
        check_model_precision(row if batches.transform is None else batches.transform(row), model)


def _callbacks(given: Sequence[Callback]) -> tuple[History, list[Callback]]:
    """The history, and all callbacks: it is first, because others read it, with the default progress bar."""
    for one in given:
        if not isinstance(one, Callback):
            raise InputTypeError(
                f"callbacks must be instances of Callback, such as Every(100, function), got {type(one).__name__}"
            )
    check_names(given)
    histories = [one for one in given if isinstance(one, History)]
    bars = [] if any(isinstance(one, Progress) for one in given) else [Progress()]
    # A history collects for one fit: the caller's own stays as it is, and can serve another.
    first = History(histories[0].every) if histories else History()
    last = [one for one in given if isinstance(one, Checkpoint)]  # it restores the others, and saves them
    return first, [first, *(one for one in given if not isinstance(one, History | Checkpoint)), *bars, *last]


def _go(loop: Loop, likelihood: Likelihood | None) -> Fit:
    """Take all steps."""
    with closing(loop.run), training(*(part.model for part in loop.parts)):
        seconds = loop.go()
    return Fit(loop.run.posterior(), loop.history, loop.run, seconds, likelihood)
