"""Which layers of a model are replaced, and why others are not."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.modules.rnn import RNNBase, RNNCellBase
from torch.nn.utils.parametrize import is_parametrized

from whvi.convert.attention import BayesianAttention, split_projections
from whvi.convert.layers import CONVOLUTIONS, Options, count_parameters, size_after, transposed
from whvi.convert.matching import Rule, Selection, Words
from whvi.convert.recurrent import matrix
from whvi.nn.base import BayesianLayer
from whvi.nn.recurrent import RECURRENT, Recurrent, matrices
from whvi.ops.torch_private import hooked, runs_as

REPLACEABLE: tuple[type[nn.Module], ...] = (nn.Linear, *CONVOLUTIONS, nn.MultiheadAttention, *RECURRENT)
"""What has a Bayesian twin."""
WITHOUT_TWIN: tuple[type[nn.Module], ...] = (nn.Conv3d, nn.ConvTranspose3d, RNNBase, RNNCellBase, nn.Bilinear)
"""What has none."""


class Choice(NamedTuple):
    """A layer of the model, and what is to become of it."""

    name: str
    module: nn.Module
    note: str = ""
    """Why it is left as it is; empty when it is to be replaced."""
    given: nn.Module | None = None
    """The layer that takes its place, where the rule gave one."""


class Rules:
    """The rule, the exceptions and the threshold of one conversion.

    Args:
        rule, skip, min_features: as for ``bayesianize``.
        options: of the layers to be made.
    """

    def __init__(self, rule: Rule, skip: Words, min_features: int, options: Options) -> None:
        self.selection = Selection(rule, skip)
        self.min_features, self.options = min_features, options

    def choices(self, model: nn.Module) -> list[Choice]:
        """What is to become of each layer, in the order of the model; each module once."""
        self.selection.check_names(model)
        return keep_ties([self._choice(name, module) for name, module in layers(model)], model)

    def _choice(self, name: str, module: nn.Module) -> Choice:
        if note := obstacle(module):
            return Choice(name, module, note)
        note, given = self.selection.decide(name, module)
        if not note and self.selection.by_size:
            note = self._too_small(module)
        return Choice(name, module, note, given)

    def _too_small(self, module: nn.Module) -> str:
        """Why a layer would gain nothing, if it would not."""
        parts = as_layers(module)
        inputs = min(part.get_parameter("weight")[0].numel() for part in parts)
        after = sum(size_after(part, self.options) for part in parts)
        if inputs < self.min_features:
            return f"{inputs} inputs, fewer than min_features={self.min_features}"
        before = count_parameters(module)
        return f"it would grow from {before:,} to {after:,} parameters" if after >= before else ""


def layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Linear layers, convolutions, attention and recurrent layers by name, each once; not what is inside of them."""
    inside: set[nn.Module] = set()
    listed: tuple[type[nn.Module], ...] = (*REPLACEABLE, *WITHOUT_TWIN)
    for name, module in model.named_modules():
        if module in inside:
            continue
        if isinstance(module, (BayesianLayer, BayesianAttention, Recurrent)) or is_parametrized(module):
            inside |= set(module.modules())
        if isinstance(module, listed) or transposed(module):
            inside |= set(module.modules())  # the output projection of attention is never called as a module
            yield name, module


def as_layers(module: nn.Module) -> list[nn.Module]:
    """The layers that a module stands for, to be measured: itself, or one for each of its matrices."""
    if isinstance(module, nn.MultiheadAttention):
        pairs = split_projections(module)
    elif isinstance(module, nn.RNNBase):
        pairs = [matrix(module, name) for name in matrices(module)]
    elif transposed(module):
        pairs = [(module.get_parameter("weight").mT, module.get_parameter("bias"))]
    else:
        return [module]
    return [nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta") for weight, bias in pairs]


def obstacle(module: nn.Module) -> str:
    """Why a module cannot be replaced, if it cannot."""
    kind = next((one for one in REPLACEABLE if isinstance(module, one)), None)
    if isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():
        return "lazy, with no shape yet; run it once on data"
    if kind is None and not transposed(module):
        return f"{type(module).__name__} has no Bayesian twin here"
    if is_parametrized(module):
        return "parametrized; remove the parametrizations first"
    if hooked(module):
        return "it has hooks, which would be lost"
    if kind is not None and not runs_as(module, kind):
        return f"{type(module).__name__} has a forward of its own"
    if isinstance(module, nn.MultiheadAttention):
        if module.bias_k is not None or module.add_zero_attn:
            return "add_bias_kv and add_zero_attn are not supported"
        weights: list[Any] = [weight for weight, _ in split_projections(module)]
    elif isinstance(module, nn.RNNBase):
        weights = [module.get_parameter(f"weight_{name}") for name in matrices(module)]
    else:
        weights = [module.weight]
    if not all(isinstance(weight, nn.Parameter) for weight in weights):
        return "its weight is not a parameter"
    if not all(weight.requires_grad for weight in weights):
        return "frozen; unfreeze its weight first"
    return ""


def keep_ties(choices: list[Choice], model: nn.Module) -> list[Choice]:
    """The choices without those that would tear tensors apart that are shared with what stays as it is."""
    owners: dict[Tensor, set[nn.Module]] = {}
    for module in model.modules():
        for tensor in module.parameters(recurse=False):
            owners.setdefault(tensor, set()).add(module)
    while True:
        going = {choice.module: choice for choice in choices if not choice.note}
        notes = {module: note for module in going if (note := _torn(module, owners, going))}
        if not notes:
            return choices
        choices = [choice._replace(note=notes.get(choice.module, choice.note)) for choice in choices]


def _torn(module: nn.Module, owners: dict[Tensor, set[nn.Module]], going: dict[nn.Module, Choice]) -> str:
    """Why a module must stay because of a tensor it shares, if it must."""
    own = set(module.modules())
    for tensor in module.parameters():
        for other in owners[tensor] - own:
            name = type(other).__name__
            if other not in going:
                return f"shares a parameter with a module of type {name} that stays as it is"
            given = going[other].given is not None or going[module].given is not None
            if given or not _alike(module, other):
                return f"shares a parameter with a module of type {name} of another kind"
    return ""


def _alike(one: nn.Module, other: nn.Module) -> bool:
    """Two layers that can share a posterior."""
    if any(isinstance(module, nn.MultiheadAttention | nn.RNNBase) or transposed(module) for module in (one, other)):
        return False
    return isinstance(one, nn.Linear) == isinstance(other, nn.Linear) and (
        getattr(one, "groups", 1) == getattr(other, "groups", 1)
    )
