"""Several networks of one architecture as one module: deep ensembles, samples of a Markov chain, trained replicas."""

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from os import PathLike
from typing import Self

import torch
from torch import Tensor, nn
from torch.func import vmap

from whvi.annotations import checked, checked_but
from whvi.ensemble import saving
from whvi.ensemble.stack import Stack, check_kinds, complete, rebuilt, repeat, stacked
from whvi.errors import ArgumentError, InputTypeError
from whvi.likelihoods import Likelihood
from whvi.nn import BayesianLayer, Draw
from whvi.nn.draws import batch_or_example, fixing
from whvi.nn.model import Several, bayesian_layers
from whvi.nn.outputs import tensor_of
from whvi.nn.swap import call_with, places
from whvi.nn.ties import sharing, tied
from whvi.nn.together import in_one_pass
from whvi.rows import Inputs, arguments

_swapping = threading.RLock()
"""A call with other tensors puts them into the template: no one else may call it or copy it meanwhile."""


class Ensemble(Several):
    """M networks of one architecture, their parameters and buffers stacked on a first axis of length M.

    Frozen parameters that all of them share as one object, such as the base of adapters, are stored once.

    Args:
        models: M modules that differ only in the values of their tensors; they are copied and not changed.
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

    @checked_but("models", "likelihoods")
    def __init__(
        self, models: Sequence[nn.Module], likelihoods: Likelihood | Sequence[Likelihood] | None = None
    ) -> None:
        super().__init__()
        check_kinds("models", models, nn.Module)
        if likelihoods is None:
            return self._build(models[0], *stacked(models, "model"), None, {})
        if isinstance(likelihoods, Likelihood):
            likelihoods = [likelihoods] * len(models)
        check_kinds("likelihoods", likelihoods, Likelihood)
        if len(likelihoods) != len(models):
            raise ArgumentError(f"expected {len(models)} likelihoods, one for each model, got {len(likelihoods)}")
        own, common = stacked(likelihoods, "likelihood")
        own |= {name: repeat(tensor, len(models)) for name, tensor in common.items()}
        return self._build(models[0], *stacked(models, "model"), likelihoods[0], own)

    @classmethod
    @checked
    def from_states(
        cls,
        model: nn.Module,
        states: Mapping[str, Tensor],
        likelihood: Likelihood | None = None,
        likelihood_states: Mapping[str, Tensor] | None = None,
        *,
        common: Mapping[str, Tensor] | None = None,
    ) -> Self:
        """Create an ensemble from stacked tensors, which are not copied.

        Args:
            model: the architecture; only the values of buffers that ``states`` lacks are taken from it.
            states: (M, ...) for the name of each parameter, and of each buffer that differs.
            likelihood: its kind, or None.
            likelihood_states: (M, ...) for each of its parameters; default those of ``likelihood`` for all members.
            common: parameters that all members have, as they are, which then are not in ``states``.

        >>> model = nn.Linear(3, 2)
        >>> ensemble = Ensemble.from_states(model, {"weight": torch.randn(10, 2, 3), "bias": torch.zeros(10, 2)})
        >>> len(ensemble)
        10
        """
        if not isinstance(model, nn.Module):
            raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
        if not states:
            raise ArgumentError("states are empty; give a tensor (M, ...) for each parameter name")
        for name, tensor in (*states.items(), *(common or {}).items()):
            if not isinstance(tensor, Tensor):
                raise InputTypeError(f"{name!r} must be a torch.Tensor, got {type(tensor).__name__}")
        size = next(iter(states.values())).shape[:1].numel()
        likelihood_tensors: dict[str, Tensor] = {}
        if likelihood is not None:
            shared = {name: repeat(parameter, size) for name, parameter in likelihood.named_parameters()}
            likelihood_tensors = complete(likelihood, likelihood_states or shared, size)
        ensemble = cls.__new__(cls)
        nn.Module.__init__(ensemble)
        common = common or {}
        ensemble._build(model, complete(model, states, size, common), common, likelihood, likelihood_tensors)
        return ensemble

    def _build(
        self,
        model: nn.Module,
        tensors: Mapping[str, Tensor],
        common: Mapping[str, Tensor],
        likelihood: Likelihood | None,
        likelihood_tensors: Mapping[str, Tensor],
    ) -> None:
        if not tensors:
            raise ArgumentError(f"{type(model).__name__} has no parameters, so all members would be equal")
        self._size = next(iter(tensors.values())).shape[0]
        # Templates have shapes and no data. They are in a tuple, where nn.Module does not take them for its own parts.
        one = {name: tensor[0] for name, tensor in tensors.items()} | {**common}
        empty = {name: torch.empty_like(tensor, device="meta") for name, tensor in one.items()}
        self._templates = rebuilt(model, empty), deepcopy(likelihood)
        self._templates[0].eval()
        if sharing(bayesian_layers(self._templates[0])):
            in_one_pass(self._templates[0])
        self._places = places(self._templates[0])
        self.model_state, self.common_state = Stack(tensors, model), Stack(common, model)
        self.likelihood_state = None if likelihood is None else Stack(likelihood_tensors, likelihood)
        self.eval()

    def __len__(self) -> int:
        return self._size

    def __getstate__(self) -> dict[str, object]:
        """For copies and pickles, which must not see a template in the middle of a call."""
        with _swapping:
            return {**self.__dict__, "_templates": deepcopy(self._templates)}

    @checked
    def save(self, path: str | PathLike[str], *, common: bool = True) -> None:
        """Save it to a folder: tensors and JSON with checksums, atomically, without pickle.

        Args:
            path: created if missing; an existing ensemble is replaced.
            common: False omits parameters that the members share, such as the base of adapters. The folder then has a
                digest of them, and ``load`` takes them from the model.
        """
        saving.save(self, path, common)

    @classmethod
    @checked
    def load(
        cls, path: str | PathLike[str], make_model: Callable[[], nn.Module], likelihood: Likelihood | None = None
    ) -> Self:
        """Load an ensemble of ``save``; CheckpointError if the folder is damaged or has another architecture.

        Args:
            path: the folder.
            make_model: the function that created its members; its random values are replaced.
            likelihood: of the members' type; required if they have one.

        Law: its predictions are bitwise identical.

        >>> from tempfile import TemporaryDirectory
        >>> ensemble, x = Ensemble([nn.Linear(3, 2) for _ in range(4)]), torch.randn(5, 3)
        >>> with TemporaryDirectory() as folder:
        ...     ensemble.save(folder)
        ...     same = Ensemble.load(folder, lambda: nn.Linear(3, 2))
        >>> torch.equal(same(x), ensemble(x))
        True
        """
        return saving.load(cls, path, make_model, likelihood)

    def stacks(self) -> dict[str, Stack]:
        """All tensors that it has."""
        own = {"model": self.model_state, "common": self.common_state}
        return own if self.likelihood_state is None else {**own, "likelihood": self.likelihood_state}

    @property
    def likelihood_kind(self) -> Likelihood | None:
        """The likelihood of a member without its numbers, if they have one."""
        return self._templates[1]

    @property
    def architecture(self) -> nn.Module:
        """A member without its numbers: parameters and buffers are on the device "meta"."""
        return self._templates[0]

    @property
    def layers(self) -> list[BayesianLayer]:
        """The Bayesian layers of the architecture."""
        return bayesian_layers(self._templates[0])

    @checked
    def member(self, index: int) -> nn.Module:
        """A copy of one network, as a plain module in eval mode."""
        if not -self._size <= index < self._size:
            raise ArgumentError(f"the ensemble has {self._size} members, but not member {index}")
        state = {name: tensor[index] for name, tensor in self.model_state.tensors().items()}
        tensors = {name: t.detach().clone() for name, t in (state | self.common_state.tensors()).items()}
        with _swapping:
            return rebuilt(self._templates[0], tensors)

    @checked
    def pair(self, index: int) -> tuple[nn.Module, Likelihood]:
        """``member(index)`` and a copy of its likelihood."""
        model, kind, stack = self.member(index), self._templates[1], self.likelihood_state
        if kind is None or stack is None:
            raise ArgumentError("the members of this ensemble have no likelihoods; use member")
        return model, rebuilt(kind, {name: tensor[index].detach().clone() for name, tensor in stack.tensors().items()})

    @checked
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
        tensors, common = self.model_state.tensors(members), self.common_state.tensors()
        template, layers = self._templates[0], self.layers
        shape = None if batch_or_example(draws) == "example" else ()
        positional, keywords = arguments(x)

        def one(state: dict[str, Tensor], own: Tensor | None) -> Tensor:
            drawn = {} if own is None else {layer: Draw(own[i], shape) for i, layer in enumerate(layers)}
            with fixing(tied(drawn)):
                return tensor_of(call_with(template, self._places, state | common, *positional, **keywords))

        with _swapping:
            found: Tensor = vmap(one, in_dims=(0, None if seeds is None else 0), randomness="different")(tensors, seeds)
        return found

    def forward(self, x: Inputs) -> Tensor:
        """``functions`` of all members."""
        return self.functions(x)

    @checked
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
