"""Copies of one network and its likelihood as rows of one matrix (copies, parameters), evaluated at once."""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap

from whvi.errors import ArgumentError, DtypeError
from whvi.inference.elbo import expected_log_likelihood
from whvi.likelihoods import Likelihood
from whvi.nn.swap import call_with, own_tensors, places
from whvi.ops import draw_seed, normal
from whvi.rows import Inputs

MODEL, LIKELIHOOD = "model.", "likelihood."


class Objective(nn.Module):
    """A model and its likelihood as one module, whose forward pass is the objective of an algorithm."""

    def __init__(self, model: nn.Module, likelihood: Likelihood) -> None:
        super().__init__()
        self.model, self.likelihood = model, likelihood


class Flat:
    """The parameters of a model and its likelihood as one vector, those of the model first.

    Args:
        pair: the two of them.

    Law: split(flat()) are the parameters.
    """

    def __init__(self, pair: Objective) -> None:
        self.pair = pair
        model, likelihood = (
            {prefix + name: tensor for name, tensor in own_tensors(pair.get_submodule(prefix.rstrip(".")))}
            for prefix in (MODEL, LIKELIHOOD)
        )
        shared = {id(tensor) for tensor in likelihood.values()}  # a model may hold its likelihood
        self.tensors = {name: tensor for name, tensor in model.items() if id(tensor) not in shared} | likelihood
        """Of both, by name: parameters and buffers."""
        learned = {name: t for name, t in self.tensors.items() if isinstance(t, nn.Parameter) and t.requires_grad}
        self.parameters = learned
        self.others = {name: t.detach() for name, t in self.tensors.items() if name not in learned}
        """What is not learned: buffers, and parameters that require no gradient."""
        self.names = [name.removeprefix(MODEL) for name in self.parameters if name.startswith(MODEL)]
        """Of the parameters of the model."""
        self.sizes = [p.numel() for p in self.parameters.values()]
        self.model_size = sum(self.sizes[: len(self.names)])
        """Numbers that belong to the model."""
        self.places = places(pair, {id(tensor): name for name, tensor in self.tensors.items()})

    def call(self, tensors: dict[str, Tensor], *arguments: Any) -> Any:
        """Call the pair with other tensors, by name."""
        return call_with(self.pair, self.places, tensors, *arguments)

    def flat(self) -> Tensor:
        """The current parameters: (parameters)."""
        return _flat(self.parameters.values())

    def write(self, flat: Tensor) -> None:
        """Set the parameters of the model and the likelihood to one copy: (parameters)."""
        with torch.no_grad():
            for name, value in self.split(flat).items():
                self.parameters[name].copy_(value)

    def split(self, flat: Tensor, prefix: str = "") -> dict[str, Tensor]:
        """Each parameter by its name, without the prefix it is chosen by: (..., parameters) -> (..., *shape)."""
        parts = zip(self.parameters.items(), flat.split(self.sizes, -1), strict=True)
        return {
            name.removeprefix(prefix): part.reshape((*flat.shape[:-1], *parameter.shape))
            for (name, parameter), part in parts
            if name.startswith(prefix)
        }


class Stacked(Flat):
    """Copies of a model and its likelihood as rows of a matrix. All copies share tensors that are not learned."""

    def __init__(self, model: nn.Module, likelihood: Likelihood) -> None:
        super().__init__(_LogLikelihood(model, likelihood))
        if not self.names:
            raise ArgumentError("the model has no parameters to sample: none of them requires a gradient")
        self._evaluate = vmap(
            self.call,
            in_dims=(0, None, None, None),
            randomness="different",
        )

    def spread(self, values: Iterable[float]) -> Tensor:
        """One number for each parameter, repeated for each of its elements: (parameters)."""
        like = self.flat()
        return torch.cat([like.new_full((size,), value) for size, value in zip(self.sizes, values, strict=True)])

    def log_likelihood(self, rows: Tensor, x: Inputs, y: Tensor, n_data: int) -> tuple[Tensor, Tensor]:
        """Of all data, estimated from a batch, at each copy: (copies); and its gradient (copies, parameters)."""
        rows = rows.detach().requires_grad_()
        with torch.enable_grad():
            value = self._evaluate(self.split(rows), x, y, n_data)
            (gradient,) = torch.autograd.grad(value.sum(), rows)  # faster than vmap of the gradient
        return value.detach(), gradient

    def elsewhere(self, std: Tensor) -> Tensor:
        """Initial values for one more copy, drawn with std for modules without an initialisation: (parameters)."""
        other, fresh = deepcopy(self.pair), set()
        for module in other.modules():
            if callable(reset := getattr(module, "reset_parameters", None)):
                reset()
                fresh |= {id(parameter) for parameter in module.parameters(recurse=False)}
        parameters = [other.get_parameter(name) for name in self.parameters]
        moved = self.spread(float(id(parameter) not in fresh) for parameter in parameters)
        noise = normal(draw_seed(device=std.device), 0, std.shape, dtype=std.dtype)
        return _flat(parameters) + moved * std * noise


class _LogLikelihood(Objective):
    """Of all data, estimated from a batch."""

    def forward(self, *batch: Any) -> Tensor:
        return expected_log_likelihood(self.model, self.likelihood, *batch)


def _flat(parameters: Iterable[Tensor]) -> Tensor:
    tensors = [parameter.detach().flatten() for parameter in parameters]
    kinds = {f"{tensor.dtype} on {tensor.device}" for tensor in tensors}
    if len(kinds) > 1:
        raise DtypeError(
            f"model and likelihood must have one dtype and device, got {', '.join(sorted(kinds))}; use .to(...)"
        )
    return torch.cat(tensors)
