"""Functions of a whole model: its KL, its draws, its mean."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from numbers import Integral

import torch
from torch import Tensor, nn

from whvi.annotations import checked
from whvi.errors import ArgumentError, InputTypeError, UnsupportedError
from whvi.nn.base import BayesianLayer
from whvi.nn.draws import Draw, Draws, Shape, fixing
from whvi.nn.ties import tied
from whvi.ops.torch_private import watched
from whvi.posterior import GaussianPrior, Prior, total_kl
from whvi.posterior.prior import SpectralPrior


class Several(nn.Module, ABC):
    """Several models in one module. Their layers have no common KL, mean or draw."""

    @property
    @abstractmethod
    def layers(self) -> list[BayesianLayer]:
        """The Bayesian layers of one of the models."""


def kl(model: nn.Module) -> Tensor:
    """KL(posterior || prior) of all random vectors of ``model``, in nats: the sum, unscaled; a scalar.

    A layer or a posterior that is used several times counts once. A model without Bayesian layers has zero.

    >>> from whvi.nn import WHVILinear
    >>> layer = WHVILinear(8, 8)
    >>> bool(kl(nn.Sequential(layer, nn.ReLU(), layer)) == layer.kl())
    True
    """
    pairs: dict[nn.Module, Prior | Tensor] = {}
    for layer in bayesian_layers(model):
        for part, prior in layer.kl_pairs().items():
            if _differ(pairs.setdefault(part, prior), prior):
                raise ArgumentError(
                    f"layers share a {type(part).__name__} but not its prior, {pairs[part]} and {prior}; give them one"
                )
    return total_kl(pairs)


def _differ(one: Prior | Tensor, other: Prior | Tensor) -> bool:
    if isinstance(one, GaussianPrior) and isinstance(other, GaussianPrior) and not (one.learned or other.learned):
        return one.initial_variance != other.initial_variance
    if isinstance(one, SpectralPrior) and isinstance(other, SpectralPrior):  # made anew for each layer
        return not watched() and not torch.equal(one.spectrum, other.spectrum)
    return one is not other and not isinstance(one, Tensor)


@checked
def sampling(
    model: nn.Module, draws: int | str | Draws = 1, generator: torch.Generator | None = None
) -> AbstractContextManager[Draws]:
    """Fix the draws of all Bayesian layers of ``model`` for a ``with`` block, in this thread.

    Args:
        model: a layer, or a module with layers in it.
        draws: 1 or "batch": one draw for all inputs. S: the first axis of the input is S
            equal chunks, and chunk s uses draw s, so ``model(x.repeat(S, 1))`` evaluates S draws at x.
            "example": row i of every input has draw i. Or the value of an earlier block, for the same draws again.
        generator: source of the seeds; default torch's own.

    The value of the block is the draw of each layer, for ``layer.weight_at(draw)``. Layers that share a posterior share
    its draw. Copies of a layer do not share its draws. A pass that is recomputed later (``torch.utils.checkpoint``)
    has them only within the block: call ``backward`` inside it.

    >>> from whvi.nn import WHVILinear
    >>> layer, x = WHVILinear(4, 4), torch.randn(3, 4)
    >>> with sampling(layer) as draws:
    ...     y = layer(x)
    >>> torch.allclose(y, x @ layer.weight_at(draws[layer]).T + layer.bias_value(draws[layer]), atol=1e-6)
    True
    """
    layers = bayesian_layers(model)
    if isinstance(draws, Mapping):
        missing = sum(layer not in draws for layer in layers)
        if missing:
            raise ArgumentError(f"draws lack {missing} of the {len(layers)} Bayesian layers of this model")
        for draw in draws.values():
            if draw is not None and not isinstance(draw, Draw):
                raise InputTypeError(f"draws must map layers to results of layer.draw(), got {type(draw).__name__}")
        return fixing(draws)
    shape = _shape(draws)
    return fixing(tied({layer: layer.draw(shape, generator) for layer in layers}))


def mean_mode(model: nn.Module) -> AbstractContextManager[Draws]:
    """Evaluate every Bayesian layer of ``model`` at its posterior mean for a ``with`` block, in this thread.

    >>> from whvi.nn import WHVILinear
    >>> layer, x = WHVILinear(4, 4), torch.randn(3, 4)
    >>> with mean_mode(layer):
    ...     bool((layer(x) == layer(x)).all())
    True
    """
    return fixing(dict.fromkeys(bayesian_layers(model)))


def bayesian_layers(model: nn.Module) -> list[BayesianLayer]:
    """The Bayesian layers of a model, each once."""
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    found = []
    for module in model.modules():
        if isinstance(module, BayesianLayer):
            found.append(module)
        elif isinstance(module, Several) and module.layers:
            raise UnsupportedError(
                f"this model holds a {type(module).__name__} of networks with Bayesian layers, which have no common "
                "KL, mean or draw; take one of them with .member(i), or give all to whvi.predict as they are"
            )
    return found


def _shape(draws: object) -> Shape | None:
    if draws == "example":
        return None
    if draws == "batch" or draws == 1:
        return ()
    if isinstance(draws, Integral) and int(draws) > 1:  # numpy's whole numbers are Integral too
        return (int(draws),)
    raise ArgumentError(f"draws must be a positive int, 'batch', 'example' or draws of this model, got {draws!r}")
