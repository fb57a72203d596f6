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
    """The predictive distribution of the targets of x: the mixture of p(y | f) over draws f of ``model``.

    Args:
        model: any module that maps rows to rows. One without Bayesian layers is evaluated once.
            In an ``Ensemble`` whose members have none, each member is evaluated once: all M, or ``samples`` of them
            that are spread over it. Members with Bayesian layers alternate. Bayesian layers that see rows on their
            first axis are evaluated for 16 draws at once, others (a transposed input, a table in the model) for one
            at a time; rows and positions may be flattened into that axis, but rows must come first.
        x: (N, ...), finite; with no rows, all fields are empty. Or several such tensors: a tuple of arguments of the
            model, or a dict of keywords (``{"input_ids": ..., "attention_mask": ...}``).
        samples: number of draws. None: 64, or the next multiple of the number of members of an ensemble; for members
            without Bayesian layers, their number.
        likelihood: default ``model.likelihood``, if it exists, or the ensemble's own. Without one, the mean and the
            variance are those of the function.
        draws: "batch": each sample is one draw of all weights, used for all rows. "example": each sample and
            row has its own weights, which gives the same marginals of single rows, but no covariance between rows.
        batch_rows: rows that are evaluated at a time, for up to 16 draws at once; quantiles store the outputs of all
            draws for these rows. The default suits networks of linear layers and small images; use fewer rows if
            activations are far wider than x and the parameters.
        seed: of all draws; default a new one from torch's generator.
        output: maps the return value of the model to the tensor for the likelihood; default the tensor itself, an
            object's ``logits``, or the first element of a tuple.
        method: "samples", or "moments", which propagates mean and variance through the network in one pass (see
            ``AnalyticPrediction``), with ``samples`` points for its output if the likelihood needs them. For
            networks that are an ``nn.Sequential`` of the layers of ``whvi.nn`` and common modules; others raise an
            error, unless they are registered by ``whvi.predictive.register_moments``.

    The model is evaluated in eval mode and without gradients, and the modes of its modules are restored afterwards.
    Any number of threads may predict with a model in eval mode; with one in training mode they take turns.

    Memory is that of the result and of one chunk of rows and draws, for any number of samples.

    Law: the result is a function of model, x, samples and seed. It does not depend on ``batch_rows``, up to rounding in
    the matrix products of torch (Walsh-Hadamard layers are bitwise identical); with "example" it does.

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
    """The draws that ``predict`` averages over, for other uses; arguments as there."""
    seed = check_arguments(model, x, samples, batch_rows, seed)
    return Functions(_source(model, likelihood, samples, output), x, batch_or_example(draws), batch_rows, seed)


def check_arguments(model: nn.Module, x: Inputs, samples: int | None, batch_rows: int | None, seed: int | None) -> int:
    """Check the arguments of ``predict``, and return the seed."""
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
