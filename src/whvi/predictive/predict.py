"""Predictions of a model."""

from torch import nn

from whvi import rows as of
from whvi.annotations import checked
from whvi.arguments import any_whole_number, whole_number
from whvi.ensemble import Ensemble
from whvi.errors import ArgumentError, InputTypeError
from whvi.likelihoods import Likelihood
from whvi.nn.draws import batch_or_example
from whvi.nn.outputs import Output, with_output
from whvi.nn.parts import check_model_precision
from whvi.ops import draw_seed
from whvi.predictive.analytic import AnalyticPrediction
from whvi.predictive.functions import Functions
from whvi.predictive.prediction import Prediction
from whvi.predictive.sources import Members, Network, Source
from whvi.rows import Inputs


@checked
def predict(
    model: nn.Module,
    x: Inputs,
    samples: int | None = 64,
    *,
    likelihood: Likelihood | None = None,
    draws: str = "batch",
    batch_rows: int | None = None,
    seed: int | None = None,
    output: Output | None = None,
    method: str = "samples",
) -> Prediction:
    """The predictive distribution of the targets of x: the mixture of p(y | f) over functions f that ``model`` draws.

    Args:
        model: any module that maps rows to rows. One without Bayesian layers is one function, and is evaluated once.
            Of an ``Ensemble`` whose members have none, each is evaluated once: all M, or ``samples`` of them that
            are spread over it. Members with Bayesian layers take turns. Bayesian layers that see rows on their first
            axis are evaluated for 16 functions at once, others (a transposed input, a table of the model's own) for one
            at a time; rows and positions may be flattened into that axis, but rows must come first.
        x: (N, ...), finite; with no rows, all fields are empty. Or several such tensors: a tuple, the arguments of the
            model, or a dict, its keywords (``{"input_ids": ..., "attention_mask": ...}``).
        samples: how many functions are drawn. None: 64, or the next multiple of the members of an ensemble; of members
            without Bayesian layers, as many as there are.
        likelihood: default ``model.likelihood``, if there is one, or the ensemble's own. Without one, the mean and the
            spread are those of the functions.
        draws: "batch": each function is one draw of all weights, used for all rows. "example": each function and
            row has weights of its own, which says the same of single rows, but nothing of how they vary together.
        batch_rows: rows that are evaluated at a time, for up to 16 functions at once; quantiles hold what all functions
            give for these rows. The default suits networks of linear layers and small images; take less where
            activations are far wider than x and the parameters.
        seed: of all draws; default a fresh one from torch's generator.
        output: maps the return value of the model to the tensor for the likelihood; default the tensor itself, an
            object's ``logits``, or the first element of a tuple.
        method: "samples", or "moments": no function is drawn; mean and variance go through the network in one pass (see
            ``AnalyticPrediction``), and ``samples`` points stand for its output where the likelihood needs that. For
            networks that are an ``nn.Sequential`` of the layers of ``whvi.nn`` and common modules; others are refused,
            unless ``whvi.predictive.register_moments`` knows them.

    The model is evaluated in eval mode and without gradients, and its modules have their own mode again afterwards.
    Any number of threads may predict with a model in eval mode; one in training mode serves them one by one.

    Memory is that of the result and of one piece of rows and functions, for any number of samples.

    Law: the result is a function of model, x, samples and seed. It does not depend on ``batch_rows``, up to rounding in
    the matrix products of torch (layers of Walsh-Hadamard kind are the same bit for bit); only for "example" it does.

    >>> import torch, whvi
    >>> from whvi.likelihoods import Gaussian
    >>> model = nn.Sequential(whvi.nn.WHVILinear(4, 16), nn.ReLU(), whvi.nn.WHVILinear(16, 1))
    >>> prediction = predict(model, torch.randn(10, 4), likelihood=Gaussian(variance=0.1), seed=0)
    >>> prediction
    Prediction(rows=10, functions=64, draws='batch')
    >>> low, high = prediction.interval(0.9)
    >>> bool((low < prediction.mean).all() and (prediction.mean < high).all())
    True
    """
    if method == "samples":
        return Prediction(
            functions_of(model, x, samples, likelihood, batch_or_example(draws), batch_rows, seed, output)
        )
    if method != "moments":
        raise ArgumentError(f"method must be 'samples' or 'moments', got {method!r}")
    if draws != "batch":
        raise ArgumentError(f"method='moments' has no draws, so draws={draws!r} has no effect; omit it")
    seed = check_arguments(model, x, samples, batch_rows, seed)
    return AnalyticPrediction(with_output(model, output), x, _law(model, likelihood), samples, batch_rows, seed)


def functions_of(
    model: nn.Module,
    x: Inputs,
    samples: int | None,
    likelihood: Likelihood | None = None,
    draws: str = "batch",
    batch_rows: int | None = None,
    seed: int | None = None,
    output: Output | None = None,
) -> Functions:
    """The functions that ``predict`` averages over, for those who want something else of them; arguments as there."""
    seed = check_arguments(model, x, samples, batch_rows, seed)
    return Functions(_source(model, likelihood, samples, output), x, batch_or_example(draws), batch_rows, seed)


def check_arguments(model: nn.Module, x: Inputs, samples: int | None, batch_rows: int | None, seed: int | None) -> int:
    """Raise the error that says what is wrong with arguments of ``predict``, if anything is; else give the seed."""
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    for name, value in (("samples", samples), ("batch_rows", batch_rows)):
        if value is not None:
            whole_number(name, value)
    if seed is not None:
        seed = any_whole_number("seed", seed)
    of.check(x)
    check_model_precision(x, model)
    return int(draw_seed()) if seed is None else seed


def _law(model: nn.Module, likelihood: Likelihood | None) -> Likelihood | None:
    """The likelihood that was given, or the model's own; of an ensemble, members may have their own."""
    if likelihood is None and not isinstance(model, Ensemble):
        own = getattr(model, "likelihood", None)
        likelihood = own if isinstance(own, Likelihood) else None  # a method may have that name
    if likelihood is not None and not isinstance(likelihood, Likelihood):
        raise InputTypeError(f"likelihood must be a whvi.likelihoods.Likelihood, got {type(likelihood).__name__}")
    return likelihood


def _source(model: nn.Module, likelihood: Likelihood | None, samples: int | None, output: Output | None) -> Source:
    likelihood = _law(model, likelihood)
    if isinstance(model, Ensemble):
        if output is not None:
            raise ArgumentError(
                "members of an ensemble have their own output; build it from whvi.nn.WithOutput(model, output)"
            )
        return Members(model, likelihood, samples)
    return Network(with_output(model, output), likelihood, samples)
