"""Every private name of torch that the library uses, each with its reason and with what happens without it.

Nothing else in the package touches ``torch._C`` or another private module of torch. ``missing()`` names what this torch
does not have; the library is then slower, or refuses what it can no longer tell, but never silently wrong.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx import GraphModule

from whvi.errors import UnsupportedError

_missing: list[str] = []


def _private(path: str, otherwise: Any) -> Any:
    """The object at a dotted path below ``torch``, or ``otherwise`` where this torch has none."""
    found: Any = torch
    for name in path.split("."):
        if not hasattr(found, name):
            _missing.append(f"torch.{path}")
            return otherwise
        found = getattr(found, name)
    return found


def missing() -> tuple[str, ...]:
    """The private names that this version of torch does not have."""
    return tuple(_missing)


# Reason: an operator that records its own gradient must call itself once more without recording, and inside an
# autograd.Function nothing is left to record. Without it: whvi cannot be imported, and says why.
below_autograd: Callable[[], AbstractContextManager[Any]] = _private("_C._AutoDispatchBelowAutograd", None)
if below_autograd is None:
    raise UnsupportedError(
        f"torch {torch.__version__} has no torch._C._AutoDispatchBelowAutograd, which the operators of whvi need; "
        "install a version of torch that docs/guarantees.md lists"
    )

# Reason: the guard and the dispatcher's way through its keys take as long as a transform of 2048 numbers; plain CPU
# tensors have one kernel, which can be called by its key. Without them: all calls take the guard.
_key_set: Any = _private("_C.DispatchKeySet", None)
_cpu_key: Any = _private("_C.DispatchKey.CPU", None)
_keys_of: Any = _private("_C._dispatch_keys", None)
_CPU_KEYS = None if None in (_key_set, _cpu_key, _keys_of) else _key_set(_cpu_key)
_PLAIN = 0 if _CPU_KEYS is None else _keys_of(torch.empty(0)).raw_repr()
"""The keys of a plain CPU tensor. Subclasses, tensors under vmap and those of other devices have others."""

# Reason: inside torch.func an autograd.Function needs its slow entry, which knows vmap and jvp; torch's own
# Function.apply asks the same question. Without it: every call takes the slow entry.
transforms_active: Callable[[], bool] = _private("_C._are_functorch_transforms_active", lambda: True)

# Reason: Function.apply inspects the signature of forward on every call, in about 30 microseconds, more than a small
# kernel takes; in plain eager execution all that it comes to is this. Without it: Function.apply.
apply_eagerly: Callable[..., Any] = vars(_private("_C._FunctionBase", object)).get(
    "apply", lambda function, *args: function.apply(*args)
)

# Reason: no public question says whether a level of forward mode is open; operators must then record. Without it: they
# always do, as if one were.
_has_forward_level = _private("autograd.forward_ad._current_level", None) is not None

# Reason: torch.library's autograd kernels must record when forward mode is on. Without it: they record whenever a level
# of forward mode is open.
_forward_grad_enabled: Callable[[], bool] = _private("_C._is_fwd_grad_enabled", lambda: True)

# Reason: make_fx and other dispatch modes, and torch.jit.trace, must see the operator itself; torch.compiler has a
# public question for compile and export alone. Without them: those tracers see what eager execution calls.
_dispatch_modes: Callable[[], int] = _private("_C._len_torch_dispatch_stack", lambda: 0)
_tracing_state: Callable[[], object] = _private("_C._get_tracing_state", lambda: None)

# Reason: torch.func finds a rule for vmap in about 300 microseconds of Python, which a step of many small models pays
# for every layer. Without them: torch.func finds the rule.
_interpreters: Callable[[], Any] = _private("_C._functorch.get_interpreter_stack", lambda: None)
_vmap_kind: Any = _private("_C._functorch.TransformType.Vmap", None)
_unwrap: Callable[..., Any] = _private("_C._functorch._unwrap_batched", None)
_wrap: Callable[..., Tensor] = _private("_C._functorch._add_batch_dim", None)
_current_level: Callable[[], Any] = _private("_functorch.pyfunctorch.retrieve_current_functorch_interpreter", None)
_has_vmap_entry = None not in (_vmap_kind, _unwrap, _wrap, _current_level)

# Reason: gamma variates from a given generator; torch.distributions takes none. Without it: random operators that need
# them say so.
standard_gamma: Callable[..., Tensor] | None = _private("_standard_gamma", None)

# Reason: whether the processor has instructions for bfloat16, which no public question says. Without it (also where
# torch was built without the library that it asks): full precision.
has_bfloat16: Callable[[], bool] = _private("ops.mkldnn._is_mkldnn_bf16_supported", lambda: False)

# Reason: a prediction must notice that a tensor was written to since. Without it: the sum of its bits tells, all but
# always.
_has_version = _private("Tensor._version", None) is not None

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def version(tensor: Tensor) -> int:
    """How often a tensor was written to."""
    return tensor._version if _has_version else 0


def hooked(module: nn.Module) -> bool:
    """Whether a module has hooks, which a layer in its place would not have.

    Reason: there is no public list of them. Without one of these: a module counts as hooked, and stays as it is.
    """
    return any(len(getattr(module, name, ".")) > 0 for name in _HOOKS)


def runs_as(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether the forward pass of a module is that of torch's class.

    Reason: convolutions have an inner one, too. Without it: forward alone is compared.
    """
    return all(getattr(type(module), name, None) is getattr(kind, name, None) for name in ("forward", "_conv_forward"))


def flat_weights(network: nn.RNNBase, weights: list[Tensor]) -> dict[str, Any]:
    """The attribute, by its name, from which the forward pass of nn.LSTM or nn.GRU takes all weights.

    Reason: they are pure functions of a private list, so that a stand-in with another list runs torch's own forward and
    leaves the network as it is. Without it: an error.
    """
    if not hasattr(network, "_flat_weights"):
        raise UnsupportedError(
            f"{type(network).__name__} of torch {torch.__version__} has no list of its weights; use a version of torch "
            "that docs/guarantees.md lists, or leave recurrent networks as they are"
        )
    return {"_flat_weights": weights}


def answer_as(new: nn.Module, attention: nn.MultiheadAttention) -> None:
    """Give a module that stands in for attention what torch's own encoder layers ask of it.

    Reason: they ask for a private attribute. Without it: they do not.
    """
    if hasattr(attention, "_qkv_same_embed_dim"):
        new._qkv_same_embed_dim = attention._qkv_same_embed_dim


def release_processes(shared: nn.parallel.DistributedDataParallel) -> None:
    """Take from a shared module what holds its process group.

    Reason: what holds a group last ends its threads, and torch's reducer would do so in a deadlock. Its name is not
    documented. Without it: nothing to take.
    """
    for name in ("logger", "reducer"):
        if hasattr(shared, name):
            delattr(shared, name)


def forward_mode_active() -> bool:
    """True inside a level of forward-mode differentiation, torch.func.jvp included."""
    return not _has_forward_level or forward_ad._current_level >= 0


def forward_mode_records() -> bool:
    """True where forward mode is active and not switched off for a block."""
    return forward_mode_active() and _forward_grad_enabled()


def traced() -> bool:
    """True where a graph is being made: torch.compile, torch.export, make_fx (any dispatch mode) or torch.jit.trace."""
    return torch.compiler.is_compiling() or _dispatch_modes() > 0 or _tracing_state() is not None


def watched() -> bool:
    """True when anything but plain eager execution goes on: a tracer, torch.func or forward mode.

    Each call of a layer asks: one function of direct questions, since a transform of 512 numbers takes 8 microseconds.
    """
    return (
        torch.compiler.is_compiling()  # first: torch.compile follows no other question
        or transforms_active()
        or _dispatch_modes() > 0
        or forward_mode_active()
        or _tracing_state() is not None
    )


def without_autograd(operator: Any) -> Callable[..., Any]:
    """The operator without its gradient, for callers that record one themselves or need none, and are not traced."""
    to_kernel = getattr(getattr(operator, "_handle", None), "redispatch_boxed", None) if _PLAIN else None

    def call(*args: Any) -> Any:
        if to_kernel is not None:
            for arg in args:
                if isinstance(arg, Tensor) and _keys_of(arg).raw_repr() != _PLAIN:
                    break
            else:
                return to_kernel(_CPU_KEYS, *args)
        with below_autograd():
            return operator(*args)

    return call


def vmap_levels() -> int:
    """How many levels of torch.vmap are open, if nothing else is: no tracer, no other transform of torch.func."""
    if not _has_vmap_entry or not transforms_active() or traced() or forward_mode_active():
        return 0
    stack = _interpreters() or ()
    return len(stack) if all(level.key() == _vmap_kind for level in stack) else 0


def through_vmap(
    plain: Callable[..., Tensor], rule: Callable[..., tuple[Tensor, int]], info: Callable[[int], Any], args: Any
) -> Tensor:
    """``plain(*args)`` where ``vmap_levels() > 0``, by the rule of the innermost level, given ``info(size)``."""
    level = _current_level()
    number = level.level()
    pairs = [_unwrap(arg, number) if isinstance(arg, Tensor) else (arg, None) for arg in args]
    with level.lower():
        if all(dim is None for _, dim in pairs):
            return plain(*args)
        result, dim = rule(info(level.batch_size()), [dim for _, dim in pairs], *(value for value, _ in pairs))
    return _wrap(result, dim, number)


def inductor(graph: GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    """A graph of tensors compiled for inputs of these shapes, strides and dtypes, which the caller must keep to.

    Reason: what torch.compile returns checks its inputs in Python at each call, 50 to 100 microseconds that a small
    step does not have. Without torch._inductor.compile: torch.compile.
    """
    try:
        from torch._inductor import compile as compile_graph
    except ImportError:
        return torch.compile(graph, dynamic=False, fullgraph=True)
    compiled: Callable[..., Any] = compile_graph(graph, [*inputs])
    return compiled
