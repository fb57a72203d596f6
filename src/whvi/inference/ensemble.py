"""An ensemble of networks on the same data, with different initial weights and seeds, fitted at once."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Unpack

import torch
from torch import nn

from whvi.annotations import checked, checked_but
from whvi.arguments import whole_number
from whvi.caller import warn_caller
from whvi.errors import InputTypeError
from whvi.inference.algorithm import Algorithm
from whvi.inference.batches import split
from whvi.inference.callbacks import Callback
from whvi.inference.fit import Data, Fit, check_modules, fit_replicas
from whvi.inference.map import MAP
from whvi.inference.old_keywords import OldReplicasKeywords, in_new_words
from whvi.inference.seeds import mix
from whvi.likelihoods import Likelihood
from whvi.nn.outputs import Output
from whvi.nn.swap import share_frozen


@checked_but("data")
def fit_ensemble(
    make_model: Callable[[], nn.Module],
    likelihood: Likelihood,
    data: Data,
    *,
    members: int = 8,
    steps: int,
    algorithm: Algorithm | None = None,
    batch_size: int = 64,
    target: str | int | None = None,
    seed: int = 0,
    output: Output | None = None,
    callbacks: Sequence[Callback] = (),
    compile: bool = False,
) -> Fit:
    """Fit several models with different initial weights at once: each variational posterior covers one mode.

    Args:
        make_model: a function that returns a model, Bayesian or plain, initialised from torch's generator. Frozen
            parameters that are equal in all members, such as the base of adapters, are stored once.
        likelihood: the distribution of targets; each member has its own copy.
        data: tensors, as for ``whvi.fit``; all members use the same rows, in different orders.
        members: the number of models.
        steps, algorithm, batch_size, target, output, callbacks: as for ``whvi.fit``. With ``EarlyStopping`` each member
            restores its own best parameters.
        seed: of initial weights, batches and noise.
        compile: as for ``fit_replicas``: it pays off from a few thousand steps on.

    The result's posterior is an ``Ensemble``, with the likelihoods of all members.

    Law: member m is what ``torch.manual_seed(s)``, ``whvi.fit(make_model(), ..., seed=s)`` gives alone for
    s = member_seeds(seed, members)[m], within rounding. Modules that draw from torch's own generator (nn.Dropout) are
    the exception: their draws differ.

    >>> from whvi.likelihoods import Gaussian
    >>> from whvi.nn import WHVILinear
    >>> x = torch.randn(100, 4)
    >>> result = fit_ensemble(lambda: WHVILinear(4, 1), Gaussian(), (x, x.sum(1)), members=3, steps=50)
    >>> len(result.posterior), result.predict(x).mean.shape
    (3, torch.Size([100, 1]))
    """
    if isinstance(make_model, nn.Module) or not callable(make_model):
        raise InputTypeError(
            f"make_model must be a function that returns a model, got {type(make_model).__name__}; each member has a "
            "start of its own, so give the function that builds the network"
        )
    seeds = member_seeds(seed, members)
    models: list[nn.Module] = []
    for own in seeds:
        with torch.random.fork_rng():
            torch.manual_seed(own)
            model = make_model()
        check_modules(model, likelihood)
        if models:
            share_frozen(model, models[0])
        models.append(model)
    return fit_replicas(
        models,
        [deepcopy(likelihood) for _ in models],
        [split("data", data, target)] * len(models),
        steps=steps,
        algorithm=algorithm,
        batch_size=batch_size,
        seeds=seeds,
        output=output,
        callbacks=callbacks,
        compile=compile,
    )


@checked
def member_seeds(seed: int, members: int) -> list[int]:
    """The seed of each member of an ensemble. Ensembles of different seeds have no member in common.

    >>> member_seeds(0, 4)[:2] == member_seeds(0, 2), set(member_seeds(0, 4)) & set(member_seeds(1, 4))
    (True, set())
    """
    return [mix(seed, "member", member) for member in range(whole_number("members", members))]


@checked_but("data")
def deep_ensemble(
    models: Sequence[nn.Module],
    likelihoods: Sequence[Likelihood],
    data: Data,
    *,
    steps: int,
    algorithm: MAP | None = None,
    batch_size: int = 64,
    seeds: Sequence[int] | None = None,
    output: Output | None = None,
    callbacks: Sequence[Callback] = (),
    compile: bool = False,
    **old: Unpack[OldReplicasKeywords],
) -> Fit:
    """Deprecated: ``fit_ensemble(make_model, ..., algorithm=MAP())``, or ``fit_replicas`` for existing models."""
    message = "deep_ensemble is deprecated: use fit_ensemble(make_model, likelihood, data, algorithm=MAP())"
    warn_caller(message)
    _, more = in_new_words("deep_ensemble", None, old)
    return fit_replicas(
        models,
        likelihoods,
        [data] * len(models),
        steps=steps,
        algorithm=algorithm or MAP(),
        batch_size=batch_size,
        seeds=seeds,
        output=output,
        callbacks=[*callbacks, *more],
        compile=compile,
    )
