"""Several networks of one architecture as one module: deep ensembles, samples of a Markov chain, trained replicas."""

import threading
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Self, TypeVar

import torch
from torch import Tensor, nn
from torch.func import vmap

from whvi.errors import ArgumentError, InputTypeError, ShapeError
from whvi.likelihoods import Likelihood
from whvi.nn import BayesianLayer, Draw
from whvi.nn.anatomy import anatomy, differences
from whvi.nn.draws import batch_or_example, fixing
from whvi.nn.model import Several, bayesian_layers
from whvi.nn.outputs import tensor_of
from whvi.nn.swap import call_with, own_tensors, places
from whvi.nn.ties import sharing, tied
from whvi.nn.together import in_one_pass
from whvi.rows import Inputs, arguments

Module = TypeVar("Module", bound=nn.Module)
_swapping = threading.RLock()
"""A call with other tensors puts them into the template: no one else may call it or copy it meanwhile."""


class Ensemble(Several):
    """M networks of one architecture, their parameters and buffers stacked on a first axis of length M.

    Args:
        models: M modules that differ in the values of their tensors only; they are copied, and are left as they are.
            Modules and tensors that one of them uses in several places are shared in the ensemble too.
        likelihoods: M likelihoods of one kind, one for all, or None.

    Members are evaluated in eval mode. ``whvi.predict`` averages over them.

    Law: functions(x)[i] == member(i)(x), up to rounding.

    >>> networks = [nn.Linear(3, 2) for _ in range(4)]
    >>> ensemble, x = Ensemble(networks), torch.randn(5, 3)
    >>> len(ensemble), ensemble.functions(x).shape
    (4, torch.Size([4, 5, 2]))
    >>> torch.allclose(ensemble.functions(x)[2], networks[2](x), atol=1e-6)
    True
    """

    def __init__(
        self, models: Sequence[nn.Module], likelihoods: Likelihood | Sequence[Likelihood] | None = None
    ) -> None:
        super().__init__()
        _check("models", models, nn.Module)
        if likelihoods is None:
            return self._build(models[0], _stacked(models, "model"), None, {})
        if isinstance(likelihoods, Likelihood):
            likelihoods = [likelihoods] * len(models)
        _check("likelihoods", likelihoods, Likelihood)
        if len(likelihoods) != len(models):
            raise ArgumentError(f"there are {len(likelihoods)} likelihoods for {len(models)} models; give one for each")
        own = _stacked(likelihoods, "likelihood")
        return self._build(models[0], _stacked(models, "model"), likelihoods[0], own)

    @classmethod
    def from_states(
        cls,
        model: nn.Module,
        states: Mapping[str, Tensor],
        likelihood: Likelihood | None = None,
        likelihood_states: Mapping[str, Tensor] | None = None,
    ) -> Self:
        """From tensors that are stacked already, which are kept as they are and not copied.

        Args:
            model: the architecture; only the values of buffers that ``states`` lacks are taken from it.
            states: (M, ...) for the name of each parameter, and of each buffer that differs.
            likelihood: its kind, or None.
            likelihood_states: (M, ...) for each of its parameters; default those of ``likelihood`` for all members.

        >>> model = nn.Linear(3, 2)
        >>> ensemble = Ensemble.from_states(model, {"weight": torch.randn(10, 2, 3), "bias": torch.zeros(10, 2)})
        >>> len(ensemble)
        10
        """
        if not isinstance(model, nn.Module):
            raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
        if not states:
            raise ArgumentError("states are empty; give a tensor (M, ...) for the name of each parameter")
        size = next(iter(states.values())).shape[:1].numel()
        likelihood_tensors: dict[str, Tensor] = {}
        if likelihood is not None:
            shared = {name: _repeat(parameter, size) for name, parameter in likelihood.named_parameters()}
            likelihood_tensors = _complete(likelihood, likelihood_states or shared, size)
        ensemble = cls.__new__(cls)
        nn.Module.__init__(ensemble)
        ensemble._build(model, _complete(model, states, size), likelihood, likelihood_tensors)
        return ensemble

    def _build(
        self,
        model: nn.Module,
        tensors: Mapping[str, Tensor],
        likelihood: Likelihood | None,
        likelihood_tensors: Mapping[str, Tensor],
    ) -> None:
        if not tensors:
            raise ArgumentError(f"{type(model).__name__} has no parameters, so all members would be equal")
        self._size = next(iter(tensors.values())).shape[0]
        # Templates have shapes and no data. They are in a tuple, where nn.Module does not take them for its own parts.
        empty = {name: torch.empty_like(tensor[0], device="meta") for name, tensor in tensors.items()}
        self._templates = rebuilt(model, empty), deepcopy(likelihood)
        self._templates[0].eval()
        if sharing(bayesian_layers(self._templates[0])):
            in_one_pass(self._templates[0])
        self._places = places(self._templates[0])
        self.model_state = Stack(tensors, model)
        self.likelihood_state = None if likelihood is None else Stack(likelihood_tensors, likelihood)
        self.eval()

    def __len__(self) -> int:
        return self._size

    def __getstate__(self) -> dict[str, object]:
        """For copies and pickles, which must not see a template in the middle of a call."""
        with _swapping:
            return {**self.__dict__, "_templates": deepcopy(self._templates)}

    @property
    def architecture(self) -> nn.Module:
        """A member without its numbers: parameters and buffers are on the device "meta"."""
        return self._templates[0]

    @property
    def layers(self) -> list[BayesianLayer]:
        """The Bayesian layers of the architecture."""
        return bayesian_layers(self._templates[0])

    def member(self, index: int) -> nn.Module:
        """A copy of one network, as a plain module in eval mode."""
        if not -self._size <= index < self._size:
            raise ArgumentError(f"there are {self._size} members, so there is no member {index}")
        tensors = {name: tensor[index].detach().clone() for name, tensor in self.model_state.tensors().items()}
        with _swapping:
            return rebuilt(self._templates[0], tensors)

    def functions(
        self,
        x: Inputs,
        members: slice | Sequence[int] | None = None,
        *,
        seeds: Tensor | None = None,
        draws: str = "batch",
    ) -> Tensor:
        """Outputs of members: (rows, ...) -> (m, rows, ...).

        Args:
            x: inputs, the same for all, as the members take them.
            members: which; default all.
            seeds: (m, layers), for members with Bayesian layers; default fresh draws, as the layers have it.
            draws: with seeds, "batch" for one draw of weights for all rows, or "example" for one for each row.
        """
        tensors = self.model_state.tensors(members)
        template, layers = self._templates[0], self.layers
        shape = None if batch_or_example(draws) == "example" else ()
        positional, keywords = arguments(x)

        def one(state: dict[str, Tensor], own: Tensor | None) -> Tensor:
            drawn = {} if own is None else {layer: Draw(own[i], shape) for i, layer in enumerate(layers)}
            with fixing(tied(drawn)):
                return tensor_of(call_with(template, self._places, state, *positional, **keywords))

        with _swapping:
            found: Tensor = vmap(one, in_dims=(0, None if seeds is None else 0), randomness="different")(tensors, seeds)
        return found

    def forward(self, x: Inputs) -> Tensor:
        """``functions`` of all members."""
        return self.functions(x)

    def likelihood(self, members: Sequence[int] | None = None) -> Likelihood | None:
        """The likelihoods of members as one, with parameters (m, 1, ...) that broadcast against (m, rows, features)."""
        template = self._templates[1]
        if template is None or self.likelihood_state is None:
            return None
        index = list(range(self._size) if members is None else members)
        tensors = {name: tensor[index].unsqueeze(1) for name, tensor in self.likelihood_state.tensors().items()}
        return rebuilt(template, {n: t.unsqueeze(-1) if t.ndim == 2 else t for n, t in tensors.items()})

    def extra_repr(self) -> str:
        """Number and kind, for ``print``."""
        return f"{self._size} x {type(self._templates[0]).__name__}"


class Stack(nn.Module):
    """Tensors (M, ...) by names that may have dots in them, which those of nn.Module may not."""

    def __init__(self, tensors: Mapping[str, Tensor], like: nn.Module) -> None:
        super().__init__()
        needs_grad = {name: parameter.requires_grad for name, parameter in like.named_parameters()}
        self._names = {name: name.replace(".", "-") for name in tensors}
        for name, tensor in tensors.items():
            if name in needs_grad:
                self.register_parameter(self._names[name], nn.Parameter(tensor.detach(), needs_grad[name]))
            else:
                self.register_buffer(self._names[name], tensor.detach())

    def tensors(self, members: slice | Sequence[int] | None = None) -> dict[str, Tensor]:
        """The tensors by name, all members or some."""
        found = {name: getattr(self, own) for name, own in self._names.items()}
        if members is None:
            return found
        index = members if isinstance(members, slice) else torch.tensor(members)
        return {name: tensor[index] for name, tensor in found.items()}


def rebuilt(module: Module, tensors: Mapping[str, Tensor]) -> Module:
    """A copy of a module with other parameters and buffers in it, which may have any shape.

    >>> doubled = rebuilt(nn.Linear(2, 1), {"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
    >>> doubled(torch.ones(1, 2)).item()
    2.0
    """
    memo: dict[int, object] = {}  # what ``deepcopy`` holds for copied already
    for name, own in own_tensors(module):
        new = tensors[name]
        memo[id(own)] = nn.Parameter(new, own.requires_grad) if isinstance(own, nn.Parameter) else new
    return deepcopy(module, memo)


def _check(name: str, modules: object, kind: type) -> None:
    """Raise the error that says what is wrong with a list of modules, if anything is."""
    if not isinstance(modules, Sequence | nn.ModuleList):
        raise InputTypeError(f"{name} must be a list of {kind.__name__}, got {type(modules).__name__}")
    if not len(modules):
        raise ArgumentError(f"{name} is empty; an ensemble has at least one member")
    for module in modules:
        if not isinstance(module, kind):
            raise InputTypeError(f"{name} must be a list of {kind.__name__}, but one is a {type(module).__name__}")
        if type(module) is not type(modules[0]):
            one, other = type(modules[0]).__name__, type(module).__name__
            raise ArgumentError(f"{name} must be of one architecture, but one is a {one} and another a {other}")


def _stacked(modules: Sequence[nn.Module], kind: str) -> dict[str, Tensor]:
    """The tensors of modules of one architecture, copied into one for each name."""
    states = [dict(own_tensors(module)) for module in modules]
    shapes = [{name: tensor.shape for name, tensor in state.items()} for state in states]
    for i, other in enumerate(shapes):
        if other != shapes[0]:
            name = next(n for n in {**shapes[0], **other} if shapes[0].get(n) != other.get(n))
            raise ShapeError(
                f"members must be of one architecture, but {name} is {_plain(shapes[0].get(name))} in member 0 and "
                f"{_plain(other.get(name))} in member {i}"
            )
    first = anatomy(modules[0], kind)
    for i, module in enumerate(modules):
        if module is not modules[0] and (found := differences(first, anatomy(module, kind))):
            raise ArgumentError(
                f"members may differ in the values of their tensors only, but from member 0 to {i}, {found[0]}"
            )
    return {name: torch.stack([state[name].detach() for state in states]) for name in states[0]}


def _plain(shape: torch.Size | None) -> str:
    return "absent" if shape is None else str(tuple(shape))


def _complete(module: nn.Module, states: Mapping[str, Tensor], size: int) -> dict[str, Tensor]:
    """``states``, with buffers that are the same for all members added."""
    own = dict(own_tensors(module))
    needed = {name for name, _ in module.named_parameters()}
    missing, unknown = sorted(needed - set(states)), sorted(set(states) - set(own))
    if missing or unknown:
        raise ArgumentError(
            f"states must name the tensors of {type(module).__name__}; missing: {missing or 'none'}, unknown: "
            f"{unknown or 'none'}"
        )
    for name, tensor in states.items():
        if tensor.shape != (size, *own[name].shape) or not size:
            raise ShapeError(
                f"{name} has shape {tuple(tensor.shape)}, but ({size}, *{tuple(own[name].shape)}) is wanted: a member "
                "for each element of the first axis, at least one, and as many for all names"
            )
    return {name: states[name] if name in states else _repeat(tensor, size) for name, tensor in own.items()}


def _repeat(tensor: Tensor, size: int) -> Tensor:
    return tensor.detach().expand(size, *tensor.shape).clone()
