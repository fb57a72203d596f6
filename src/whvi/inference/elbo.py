"""The evidence lower bound, with its factor N / M."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from whvi import rows as of
from whvi.annotations import checked
from whvi.arguments import whole_number
from whvi.errors import ArgumentError, InputTypeError, ShapeError
from whvi.inference.renamed import renamed
from whvi.inference.schedules import Schedule, at
from whvi.likelihoods import Likelihood
from whvi.nn import kl
from whvi.nn.draws import PartsError, fixing
from whvi.nn.outputs import Output, tensor_of, with_output
from whvi.nn.together import joint_draws
from whvi.ops.precision import wide
from whvi.rows import Inputs


@renamed(beta="kl_weight")
@dataclass(frozen=True)
class Elbo:
    """The two terms of the bound, in nats for the whole dataset; ``log_likelihood, kl = elbo(...)`` unpacks them."""

    log_likelihood: Tensor
    """Estimate of E[log p(y | f)] over all N rows: that of the batch times N / M."""
    kl: Tensor
    """KL(posterior || prior), summed and unscaled."""
    kl_weight: float
    """Weight of the KL in the objective."""

    def __iter__(self) -> Iterator[Tensor]:
        """The two parts."""
        return iter((self.log_likelihood, self.kl))

    @property
    def objective(self) -> Tensor:
        """The objective of training: log_likelihood - kl_weight * kl. For kl_weight = 1 it is the bound."""
        return self.log_likelihood - self.kl_weight * self.kl

    @property
    def bound(self) -> Tensor:
        """log_likelihood - kl <= log evidence, in expectation."""
        return self.log_likelihood - self.kl


@renamed(beta="kl_weight")
@checked
def elbo(
    model: nn.Module,
    likelihood: Likelihood,
    x: Inputs,
    y: Tensor,
    *,
    n_data: int,
    kl_weight: float | Schedule = 1.0,
    step: int = 0,
    samples: int = 1,
    output: Output | None = None,
) -> Elbo:
    """The evidence lower bound of a model, estimated from a batch.

    Args:
        model: maps inputs to the parameters of the likelihood; its Bayesian layers draw.
        likelihood: the distribution of targets.
        x: inputs, M rows: a tensor, a tuple of tensors (arguments of the model) or a dict (keywords).
        y: targets, M of them.
        n_data: N, the rows of the whole dataset.
        kl_weight: weight of the KL, or a schedule of it.
        step: where in the schedule.
        samples: draws for each row.
        output: maps the return value of the model to the tensor for the likelihood; default the tensor itself, an
            object's ``logits``, or the first element of a tuple.

    Law: E[elbo(...).bound] <= log p(all targets), for batches drawn uniformly.

    >>> import torch
    >>> from whvi.likelihoods import Gaussian
    >>> from whvi.nn import WHVILinear
    >>> x, y = torch.randn(8, 4), torch.randn(8, 1)
    >>> log_likelihood, kl = elbo(WHVILinear(4, 1), Gaussian(), x, y, n_data=8)
    >>> log_likelihood.shape, kl.shape
    (torch.Size([]), torch.Size([]))
    """
    check_rows(x, y)
    y = likelihood.targets(y)
    if whole_number("n_data", n_data) < of.count(x):
        raise ArgumentError(
            f"n_data is {n_data}, but this batch alone has {of.count(x)} rows; pass the rows of the whole dataset"
        )
    whole_number("samples", samples)
    weight = at(kl_weight, whole_number("step", step, least=0))
    if not weight >= 0.0:
        raise ArgumentError(f"kl_weight must be a number that is not negative, got {weight}")
    model, x = with_output(model, output), of.mapped(torch.clone, x)  # the model may write into what it is given
    return Elbo(expected_log_likelihood(model, likelihood, x, y, n_data, samples), kl(model), weight)


def expected_log_likelihood(
    model: nn.Module, likelihood: Likelihood, x: Inputs, y: Tensor, n_data: float | Tensor, samples: int = 1
) -> Tensor:
    """N / M times the sum over M rows of the mean over draws of log p(y | f); for checked arguments."""
    rows = of.count(x)
    draws = joint_draws(model, samples, samples * rows if likelihood.positions else None)
    with fixing(draws) if draws else nullcontext():
        try:
            f = tensor_of(of.call(model, of.repeated(x, samples)))
        except PartsError as error:
            if not likelihood.positions:
                raise
            raise ShapeError(
                f"{error}. A row has one draw of weights for all of its positions, which is not possible where a layer "
                'sees something else than rows on its first axis; give such layers draws="batch"'
            ) from error
    _check_output(f, (samples * rows, *likelihood.output_shape(y)[1:]), likelihood)
    f = wide(f)
    if samples > 1:
        f = f.unflatten(0, (samples, -1))
    scale = n_data / (rows * samples)
    return likelihood.log_prob(f, y).sum() * (scale.to(f.dtype) if isinstance(scale, Tensor) else scale)


def _check_output(f: Tensor, wanted: tuple[int, ...], likelihood: Likelihood) -> None:
    """Raise an error if the output of the model has a wrong shape."""
    if tuple(f.shape) == wanted:
        return
    how = f"give the model {likelihood.features} outputs for each {'position' if likelihood.positions else 'row'}"
    if f.ndim > 2 and tuple(f.movedim(1, -1).shape) == wanted:
        how = "its classes or channels are axis 1: give output=lambda found: found.movedim(1, -1)"
    raise ShapeError(
        f"the model gives {tuple(f.shape)} for {wanted[0]} rows, but {type(likelihood).__name__} takes {wanted}; {how}"
    )


def check_rows(x: Inputs, y: Tensor) -> None:
    """Raise an error if x, or the lengths of x and y, are wrong."""
    of.check(x)
    if not isinstance(y, Tensor):
        raise InputTypeError(f"y must be a torch.Tensor, got {type(y).__name__}; convert it with torch.as_tensor")
    if y.ndim == 0 or of.count(x) != len(y):
        given = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"{of.count(x)} rows"
        raise ShapeError(f"x has {given} and y {tuple(y.shape)}, but each needs one row for each example")
    if len(y) == 0:
        raise ArgumentError("x and y have no rows; give at least one example")
