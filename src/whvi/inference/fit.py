"""``whvi.fit``: from a model, a likelihood and data to a posterior. And the same for many models at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from whvi.arguments import any_whole_number, whole_number
from whvi.errors import ArgumentError, InputTypeError
from whvi.inference.algorithm import Algorithm, Run
from whvi.inference.batches import Batches, LoaderBatches, StackedBatches, TensorBatches, Transform, digest
from whvi.inference.distributed import start, team
from whvi.inference.elbo import check_rows
from whvi.inference.history import History
from whvi.inference.loop import Callback, Loop, training
from whvi.inference.map import MAP
from whvi.inference.replicas import check_settings
from whvi.inference.seeds import mix
from whvi.inference.stopping import EarlyStopping, Watch
from whvi.inference.svi import SVI
from whvi.likelihoods import Likelihood
from whvi.nn.anatomy import anatomy, describe
from whvi.nn.parts import check_model_precision
from whvi.predictive import predict
from whvi.predictive.predict import check_inputs

Data = tuple[Tensor, Tensor]
Folder = str | PathLike[str]
_POINTS = 500  # of a curve


@dataclass(frozen=True)
class Fit:
    """The result of a fit."""

    posterior: nn.Module
    """What to predict with: the model that was given, or an ``Ensemble`` of what was sampled or trained."""
    history: History
    run: Run
    seconds: float
    """Of this call; what a checkpoint already held took none of them."""


def fit(
    model: nn.Module,
    likelihood: Likelihood,
    data: "Data | DataLoader[Any]",
    *,
    steps: int,
    algorithm: Algorithm | None = None,
    batch_size: int = 64,
    n_data: int | None = None,
    seed: int = 0,
    transform: Transform | None = None,
    validation: Data | None = None,
    early_stopping: EarlyStopping | None = None,
    callback: Callback | None = None,
    callback_every: int = 1000,
    checkpoint: Folder | None = None,
    checkpoint_every: int = 1000,
    record_every: int | None = None,
    progress: bool | None = None,
    log_dir: Folder | None = None,
    distributed: bool = False,
    compile: bool = False,
) -> Fit:
    """Fit a model, in place.

    Args:
        model: maps inputs to the numbers that the likelihood takes.
        likelihood: the law of targets; its noise is learned along.
        data: (x, y) tensors, or a DataLoader of such pairs.
        steps: how many updates. A run that is resumed with more steps goes on, unless it was stopped early.
        algorithm: ``SVI()`` by default; or ``MAP()``, ``SGHMC()``, or an ``Algorithm`` of your own.
        batch_size: rows of a step, for tensors; all rows when there are fewer.
        n_data: rows of the whole data set, for a DataLoader that does not know.
        seed: of batches and noise: the same seed gives the same bits on the same machine, for one fit at a time (torch
            has one generator for all threads).
        transform: of the inputs of each batch, such as augmentation; for tensors, which may then be of any dtype. It
            may draw from torch's generator. Part of what a checkpoint is checked by, so make it a dataclass.
        validation: (x, y) that early stopping looks at, as the model takes them.
        early_stopping: when to stop before the last step.
        callback: called with a ``Moment`` every ``callback_every`` steps; True ends the run.
        checkpoint: a folder. The run saves itself there every ``checkpoint_every`` steps and at Ctrl-C; a run that
            finds its own checkpoint goes on from it, and ends in the same bits as one that was not interrupted.
        record_every: steps in a window of the history; default a 500th of all.
        progress: a bar on standard error; None for "when that is a terminal".
        log_dir: a folder for TensorBoard.
        distributed: share the rows of each batch among the processes that torchrun started, or that are a group of
            torch.distributed already; for SVI and MAP. All of them make this call and end with the same tensors, and
            the objective is that of one process with the same batch. Noise differs between them. Each normalises
            batches by the statistics of its own part, and keeps those of the first process. That one alone calls
            ``callback``, validates, shows and writes; all read ``checkpoint``. Every parameter must be in use.

    >>> from whvi.likelihoods import Gaussian
    >>> from whvi.nn import WHVILinear
    >>> x = torch.randn(100, 4)
    >>> result = fit(WHVILinear(4, 1), Gaussian(), (x, x.sum(1)), steps=50)
    >>> len(result.history.elbo)
    50
    """
    _check_modules(model, likelihood)
    seed = any_whole_number("seed", seed)
    algorithm = SVI() if algorithm is None else algorithm
    if not isinstance(algorithm, Algorithm):
        raise InputTypeError(f"algorithm must be one such as SVI(), got {algorithm!r}")
    batches: Batches
    if isinstance(data, DataLoader):
        if transform is not None:
            raise ArgumentError("transform is for tensors; let the DataLoader's dataset transform its own rows")
        batches = LoaderBatches(data, likelihood, n_data, seed)
    else:
        if n_data is not None:
            raise ArgumentError("n_data is for a DataLoader; tensors have the rows of the whole data set")
        x, y = _pair("data", data)
        check_inputs(x)
        batches = TensorBatches(x, y, likelihood, batch_size, seed, algorithm.replacement, transform)
        with torch.random.fork_rng():  # a transform may draw
            check_model_precision(x if transform is None else transform(x[:1].clone()), model)
    validate = _validation(model, likelihood, validation, early_stopping, seed)
    algorithm.check_call(whole_number("steps", steps), early_stopping is not None)
    device = next((parameter.device for parameter in model.parameters()), None)
    with team(distributed, device) as group:
        with torch.random.fork_rng():
            torch.manual_seed(mix(seed, "init"))
            run = start(algorithm, model, likelihood, batches.n_data, group, compile)
        loop = Loop(
            run=run,
            batches=batches,
            steps=steps,
            seed=seed,
            modules={"model": model, "likelihood": likelihood},
            noise=lambda: likelihood.noise,
            identity={}
            if checkpoint is None
            else {
                "algorithm": describe(algorithm),
                "early_stopping": describe(early_stopping),
                "validation": None if validation is None else digest(*validation),
                "seed": seed,
                "data": batches.identity(),
                **({} if transform is None else {"transform": describe(transform)}),
                **({} if group.size == 1 else {"processes": group.size}),
                **anatomy(model),
                **anatomy(likelihood, "likelihood"),
                "fixed": digest(*likelihood.buffers()),
            },
            history=History(_window(record_every, steps)),
            watch=None if early_stopping is None else Watch(early_stopping),
            validate=validate,
            callback=callback,
            callback_every=callback_every,
            folder=checkpoint,
            checkpoint_every=checkpoint_every,
            progress=progress,
            log_dir=log_dir,
            team=group,
        )
        with training(model):
            seconds = loop.go()
        group.share([*model.buffers(), *likelihood.buffers()])
    return Fit(run.posterior(), loop.history, run, seconds)


def fit_replicas(
    models: Sequence[nn.Module],
    likelihoods: Sequence[Likelihood],
    data: Sequence[Data],
    *,
    steps: int,
    algorithm: Algorithm | Sequence[Algorithm] | None = None,
    batch_size: int = 64,
    seeds: Sequence[int] | None = None,
    callback: Callback | None = None,
    callback_every: int = 1000,
    checkpoint: Folder | None = None,
    checkpoint_every: int = 1000,
    record_every: int | None = None,
    progress: bool | None = None,
    compile: bool = False,
) -> Fit:
    """Fit R models of one architecture at once, in place: each on its own data, with its own seed and learning rate.

    Args:
        models, likelihoods: R of each.
        data: R pairs (x, y), with rows of one shape; their numbers may differ. A batch is no larger than the smallest.
        algorithm: ``SVI()``, ``MAP()`` or another that has ``init_replicas``, for all; or one for each replica, of one
            kind, which may differ in ``replica_settings`` only: the learning rate and, for the first two, its schedule.
        seeds: one for each replica; default 0, 1, ...
        steps, batch_size, callback, checkpoint, record_every, progress: as for ``fit``.
        compile: make the step one graph first, by torch's Inductor and a C++ compiler. It takes some ten seconds, and
            then a step of small networks a half to a quarter of its time; numbers are others in their last digits. For
            ``SVI()`` and ``MAP()``, and layers that do not draw from torch's own generator.

    The result's posterior is an ``Ensemble`` of the R models; each of ``models`` is fitted too.

    Law: each model ends where ``fit`` would take it alone, with its seed and that size of batch, within rounding.
    Modules that draw from torch's own generator (nn.Dropout) are the exception: their draws are others.
    """
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
        _check_modules(*pair)
    batches = StackedBatches([_pair("data", pair) for pair in data], likelihoods[0], batch_size, seeds)
    for model, (x, _) in zip(models, data, strict=True):
        check_model_precision(x, model)
    check_settings(settings)
    run = type(settings[0]).init_replicas(settings, models, likelihoods, batches.counts, seeds, compile)
    loop = Loop(
        run=run,
        batches=batches,
        steps=steps,
        seed=seeds[0],
        modules={},
        noise=run.noise,
        identity={}
        if checkpoint is None
        else {
            "algorithm": describe(settings),
            "seeds": seeds,
            "data": batches.identity(),
            **anatomy(models[0]),
            **anatomy(likelihoods[0], "likelihood"),
            "fixed": [digest(*likelihood.buffers()) for likelihood in likelihoods],
        },
        history=History(_window(record_every, steps)),
        callback=callback,
        callback_every=callback_every,
        folder=checkpoint,
        checkpoint_every=checkpoint_every,
        progress=progress,
    )
    with training(*models):
        seconds = loop.go()
    return Fit(run.posterior(), loop.history, run, seconds)


def deep_ensemble(
    models: Sequence[nn.Module],
    likelihoods: Sequence[Likelihood],
    data: Data,
    *,
    steps: int,
    algorithm: MAP | None = None,
    **options: Any,
) -> Fit:
    """Plain networks from different starts and seeds, fitted at once on the same data (Lakshminarayanan et al., 2017).

    Args:
        models, likelihoods: the members; initialise them differently.
        data: (x, y).
        algorithm: ``MAP()`` by default.
        options: as for ``fit_replicas``.
    """
    return fit_replicas(models, likelihoods, [data] * len(models), steps=steps, algorithm=algorithm or MAP(), **options)


def _check_modules(model: object, likelihood: object) -> None:
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(likelihood, Likelihood):
        raise InputTypeError(
            f"likelihood must be one of whvi.likelihoods, such as Gaussian(), got {type(likelihood).__name__}"
        )


def _validation(
    model: nn.Module,
    likelihood: Likelihood,
    data: Data | None,
    early_stopping: EarlyStopping | None,
    seed: int,
) -> Callable[[], float] | None:
    """What gives the mean negative log predictive density of the validation rows, if there are any."""
    if early_stopping is None:
        if data is not None:
            raise ArgumentError("validation rows are for early stopping; give early_stopping=EarlyStopping() too")
        return None
    if data is None:
        if early_stopping.monitor == "mnll":
            raise ArgumentError("early stopping on 'mnll' needs validation=(x, y); or use monitor='elbo'")
        return None
    x, y = _pair("validation", data)
    check_rows(x, y)
    likelihood.targets(y)
    fixed = mix(seed, "validation")
    return lambda: float(predict(model, x, early_stopping.samples, likelihood=likelihood, seed=fixed).mnll(y))


def _pair(name: str, data: object) -> Data:
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputTypeError(f"{name} must be a pair (x, y) of tensors, got {type(data).__name__}")
    return data[0], data[1]


def _window(record_every: int | None, steps: int) -> int:
    if record_every is None:
        return max(1, whole_number("steps", steps) // _POINTS)
    return whole_number("record_every", record_every)
