"""From a dense model to a Bayesian one."""

from copy import deepcopy

from torch import Tensor, nn
from torch.nn.modules.rnn import RNNBase
from torch.nn.parameter import is_lazy

from whvi.annotations import checked
from whvi.arguments import whole_number
from whvi.caller import warn_caller
from whvi.convert.attention import make_attention
from whvi.convert.conversion import Conversion, remember
from whvi.convert.layers import Maker, Options, count_parameters, transposed
from whvi.convert.matching import Rule, Words
from whvi.convert.recurrent import make_recurrent
from whvi.convert.report import Converted, Report, Row
from whvi.convert.rules import Choice, Rules
from whvi.errors import ArgumentError, InputTypeError
from whvi.nn import WHVIConv2d, WHVILinear
from whvi.nn.base import BayesianLayer
from whvi.nn.model import bayesian_layers
from whvi.nn.parts import BATCH_NORMS
from whvi.nn.ties import sharing
from whvi.nn.together import in_one_pass
from whvi.posterior import Prior
from whvi.posterior.spec import Spec

_SEQUENCES = (nn.MultiheadAttention, nn.Transformer, RNNBase, nn.Embedding, nn.Conv1d)
"""Modules of models whose linear layers may see several positions of one example."""

_OF_MODULES = frozenset(vars(nn.Module()))
"""Attributes of every module, which torch keeps."""

_TIME_FIRST = "batch_first=False: whvi.predict and whvi.fit take axis 0 of x for examples; transpose x in forward"


@checked
def bayesianize(
    model: nn.Module,
    *,
    rule: Rule = None,
    posterior: Spec = "diagonal",
    init: str = "prior",
    skip: Words = (),
    inplace: bool = False,
    min_features: int = 16,
    relative_std: float | None = None,
    bias: Spec = "diagonal",
    structure: str = "SHGHS",
    scales: Spec = "optimised",
    prior_variance: float | Prior = 1.0,
    share_g: bool = True,
    terms: int = 1,
    layout: str = "stack",
    block: int | None = None,
    pad_to: str = "power_of_two",
    draws: str = "auto",
) -> Converted:
    """The model with Walsh-Hadamard layers in place of its linear layers, convolutions and attention, and a report.

    Args:
        model: any nn.Module. Dtype, device, training flags and ties stay; layers that cannot be replaced stay, with a
            note.
        rule: which layers. None: nn.Linear, nn.MultiheadAttention, nn.LSTM, nn.GRU, nn.Conv1d and nn.Conv2d and their
            transposes and transformers' Conv1D, if that saves parameters; a type or several; a name or pattern of
            names (``"layers.*.linear1"``; a name includes its submodules) or several; or a function of (name, module)
            that returns True, False, or the replacement.
        posterior, bias, structure, scales, prior_variance, share_g, terms, layout, block: as for ``WHVILinear``; biases
            start at the dense ones, and frozen biases stay fixed.
        pad_to: as for ``WHVILinear``, but "power_of_two" by default.
        init: "prior" initialises like a new layer, which must be trained. "pretrained" is deprecated: it fits the mean
            weight to the dense one, as closely as its structure allows, which is too far to keep the function,
            and trains to a worse fit in the same number of steps.
        skip: names, patterns and types to exclude.
        inplace: change the model itself; an error leaves it unchanged. Otherwise it is copied.
        min_features: layers with fewer inputs are not replaced, unless the rule names them.
        relative_std: initial standard deviations, relative to the size of the means; default that of a new
            layer, exp(-2), and 0.05 for a pretrained one.
        draws: "example", "batch", or "auto": linear layers draw once for each row, but once for each call in
            models of sequences, where a row is not an example; convolutions once for each call, but once for each
            example in models with batch normalisation, which would remove the shift of a draw for the whole batch.

    >>> model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    >>> bayesian, report = bayesianize(model)
    >>> print(report)
    name  kind    shape     parameters       error
    0     Linear  256 x 64  16,640 -> 1,152      -
    2     Linear  10 x 256  2,570 -> 1,044       -
    Linear layers draw once for each row (draws="example").
    2 layers replaced: 19,210 -> 2,196 parameters (11.4 %). Whole model: 19,210 -> 2,196.
    """
    if not isinstance(model, nn.Module):
        raise InputTypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    options = Options(
        posterior, init, relative_std, bias, structure, scales, prior_variance, share_g, terms, layout, block, pad_to,
        draws,
    )  # fmt: skip
    if init == "pretrained":
        message = "init='pretrained' is deprecated: it trains to a worse fit than 'prior', the default; omit init"
        warn_caller(message)
    choices = Rules(rule, skip, whole_number("min_features", min_features), options).choices(model)
    if all(choice.note for choice in choices):
        reasons = "; ".join(f"{choice.name or 'the model'}: {choice.note}" for choice in choices[:5])
        raise ArgumentError(f"nothing in this model can be replaced ({reasons or 'it has no linear layers'})")
    if inplace and any(choice.module is model and not choice.note for choice in choices):
        raise ArgumentError("a layer cannot be replaced in itself; use inplace=False and take the model of the result")
    frozen = tuple(name for name, parameter in model.named_parameters() if not parameter.requires_grad)
    maker = Maker(options, *auto_draws(model))
    before = count_parameters(model)
    made = {choice.module: _make(choice, maker) for choice in choices if not choice.note}
    changed = exchange(model, {module: new for module, (new, _) in made.items()}, inplace)
    if sharing(bayesian_layers(changed)):
        in_one_pass(changed)
    rows = _rows(choices, made)
    done = [choice for choice in choices if not choice.note]
    given = tuple(choice.name for choice in done if choice.given is not None)
    remember(changed, Conversion(options, tuple(choice.name for choice in done), given, frozen))
    return Converted(changed, Report(rows, before, count_parameters(changed), *_draws(made)))


def auto_draws(model: nn.Module) -> tuple[str, str]:
    """What ``draws="auto"`` means in a model: for linear layers, and for convolutions."""
    sequences, normalised = (
        any(isinstance(module, kinds) for module in model.modules()) for kinds in (_SEQUENCES, BATCH_NORMS)
    )
    return "batch" if sequences else "example", "example" if normalised else "batch"


def exchange(model: nn.Module, new: dict[nn.Module, nn.Module], inplace: bool) -> nn.Module:
    """The model, or a copy of it, with other modules wherever these stand; the new ones take over training flags."""
    for module, other in new.items():
        other.train(module.training)
    if inplace:
        by_path = dict(model.named_modules(remove_duplicate=False))
        for path, child in by_path.items():
            if child in new:
                parent, _, name = path.rpartition(".")
                setattr(by_path[parent], name, new[child])
        for parent in set(by_path.values()):
            for name, value in vars(parent).items():
                if name not in _OF_MODULES:  # a list of layers that forward goes through, say
                    vars(parent)[name] = _with_new(value, new)
    else:
        # A copy that believes to have copied these modules already takes the new ones, at all places.
        model = deepcopy(model, {id(module): other for module, other in new.items()})
    for module in model.modules():
        _call_by_call(module)
    return model


def _with_new(value: object, new: dict[nn.Module, nn.Module]) -> object:
    """An attribute with other modules in its lists, tuples and dicts; lists and dicts are changed in place."""
    if isinstance(value, nn.Module):
        return new.get(value, value)
    if isinstance(value, list):
        value[:] = [_with_new(part, new) for part in value]
    elif type(value) is tuple:
        return tuple(_with_new(part, new) for part in value)
    elif isinstance(value, dict):
        value |= {key: _with_new(part, new) for key, part in value.items()}
    return value


def _call_by_call(module: nn.Module) -> None:
    """Keep torch's encoders from reading the weights of Bayesian layers, and let them call these instead."""
    if not any(isinstance(part, BayesianLayer) for part in module.modules()):
        return
    if isinstance(module, nn.TransformerEncoder):
        module.use_nested_tensor = False
    if isinstance(module, nn.TransformerEncoderLayer):
        module.activation_relu_or_gelu = 0


def _make(choice: Choice, maker: Maker) -> tuple[nn.Module, float | None]:
    """The layer for a choice, and the error of its weight."""
    module = choice.module
    if choice.given is not None:
        return choice.given, None
    try:
        if isinstance(module, nn.MultiheadAttention):
            return make_attention(module, maker)
        if isinstance(module, nn.RNNBase):
            return make_recurrent(module, maker)
        if isinstance(module, nn.Linear):
            return maker.linear(module.weight, module.bias)
        if transposed(module):
            return maker.linear(module.get_parameter("weight").mT, module.get_parameter("bias"))
        return maker.conv(module)
    except ArgumentError as error:
        raise ArgumentError(f"{choice.name or 'the model'}: {error}") from error


def _rows(choices: list[Choice], made: dict[nn.Module, tuple[nn.Module, float | None]]) -> tuple[Row, ...]:
    """A row for each choice; parameters count where they are first seen."""
    seen: dict[int, str] = {}
    rows = []
    for name, module, note, _ in choices:
        kind, weight = type(module).__name__, getattr(module, "weight", None)
        shape = tuple(weight.shape) if isinstance(weight, Tensor) and not is_lazy(weight) else ()
        before, with_whom = _count(module, name, seen)
        if note:
            if isinstance(module, RNNBase) and not module.batch_first:
                note += f"; {_TIME_FIRST}"
            rows.append(Row(name, kind, shape, before, before, None, note))
            continue
        new, error = made[module]
        after, with_whom = _count(new, name, seen)
        if isinstance(module, RNNBase) and not module.batch_first:
            with_whom = _TIME_FIRST
        rows.append(Row(name, kind, shape, before, after, error, with_whom, True))
    return tuple(rows)


def _draws(made: dict[nn.Module, tuple[nn.Module, float | None]]) -> tuple[str, str]:
    """What linear layers and what convolutions draw for, where there are any and all do the same."""
    modules = [module for new, _ in made.values() for module in new.modules()]
    linear, conv = (
        {module.draws for module in modules if isinstance(module, kind)} for kind in (WHVILinear, WHVIConv2d)
    )
    return linear.pop() if len(linear) == 1 else "", conv.pop() if len(conv) == 1 else ""


def _count(module: nn.Module, name: str, seen: dict[int, str]) -> tuple[int, str]:
    """Parameters that were not seen before, and a note about those that were."""
    parameters = [parameter for parameter in module.parameters() if not is_lazy(parameter)]
    shared = [seen[id(p)] for p in parameters if id(p) in seen]
    count = sum(p.numel() for p in parameters if id(p) not in seen)
    seen.update((id(p), name) for p in parameters)
    return count, f"shares its posterior with {shared[0] or 'the model'}" if shared else ""
