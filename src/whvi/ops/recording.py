"""How a call is recorded for autograd: as an operator in graphs, as an autograd.Function in eager execution."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
from torch.autograd import forward_ad

# True inside torch.func transforms; it is what autograd.Function itself asks.
transforms_active = torch._C._are_functorch_transforms_active


def forward_mode_active() -> bool:
    """True inside a level of forward-mode differentiation, torch.func.jvp included."""
    return forward_ad._current_level >= 0


def must_record(x: torch.Tensor) -> bool:
    """True when a derivative of a function of x alone may be asked for: backward, forward-mode or torch.func."""
    return (x.requires_grad or forward_mode_active() or transforms_active()) and not in_graph()


def watched() -> bool:
    """True when anything but plain eager execution goes on: a tracer, torch.func or forward mode."""
    return traced() or forward_ad._current_level >= 0 or transforms_active()


def only_vmap() -> bool:
    """True where torch.vmap is all that goes on: no tracer, no other transform of torch.func."""
    if not transforms_active() or traced() or forward_mode_active():
        return False
    stack = torch._C._functorch.get_interpreter_stack()
    return stack is not None and all(level.key() == torch._C._functorch.TransformType.Vmap for level in stack)


def one_vmap() -> bool:
    """True where a single torch.vmap is all that goes on."""
    return only_vmap() and len(torch._C._functorch.get_interpreter_stack() or ()) == 1


def traced() -> bool:
    """True where a graph is being made: torch.compile, torch.export, make_fx (any dispatch mode) or torch.jit.trace."""
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
    )


def in_graph() -> bool:
    """True where torch.compile or torch.export trace: the graph gets the operator itself, which carries autograd."""
    return torch.compiler.is_compiling() and not transforms_active()


def record(function: type[torch.autograd.Function], *args: Any) -> Any:
    """``function.apply(*args)`` for positional arguments.

    ``Function.apply`` inspects the signature of ``forward`` on every call (about 30 microseconds, more than a small
    kernel); plain eager execution has no use for that, torch.compile and torch.func do.
    """
    if torch.compiler.is_compiling() or transforms_active():
        return function.apply(*args)
    return super(torch.autograd.Function, function).apply(*args)  # type: ignore[misc]


class BatchInfo(NamedTuple):
    """What a rule for vmap is told."""

    batch_size: int
    randomness: str = "different"


def under_vmap(
    plain: Callable[..., torch.Tensor], rule: Callable[..., tuple[torch.Tensor, int]], *args: Any
) -> torch.Tensor:
    """``plain(*args)`` where ``only_vmap()``, by its rule for vmap.

    torch.func would find the rule by itself, in about 300 microseconds of Python for each call; a step of many small
    models at once is made of such calls.
    """
    level: Any = retrieve_current_functorch_interpreter()
    number = level.level()
    pairs = [
        torch._C._functorch._unwrap_batched(arg, number) if isinstance(arg, torch.Tensor) else (arg, None)
        for arg in args
    ]
    with level.lower():
        if all(dim is None for _, dim in pairs):
            return plain(*args)
        result, dim = rule(BatchInfo(level.batch_size()), [dim for _, dim in pairs], *(value for value, _ in pairs))
    batched: torch.Tensor = torch._C._functorch._add_batch_dim(result, dim, number)
    return batched


def in_front(
    dims: Sequence[int | None], tensors: Sequence[torch.Tensor | None], size: int
) -> list[torch.Tensor | None]:
    """The tensors of a vmapped call with the batch as first axis, repeated where there is none."""
    return [
        None if t is None else (t.expand(size, *t.shape) if d is None else t.movedim(d, 0))
        for d, t in zip(dims, tensors, strict=True)
    ]


def composed_backward(
    compose: Callable[..., torch.Tensor],
    operands: Sequence[torch.Tensor | None],
    needs: Sequence[bool],
    grad: torch.Tensor,
) -> tuple[torch.Tensor | None, ...]:
    """A backward pass that can be differentiated itself: that of the function in torch that an operator equals.

    Args:
        compose: the function of the operands.
        operands: as they were given to ``record``, before any other arguments.
        needs: ``ctx.needs_input_grad``, one for each argument.
        grad: of the result.
    """
    operands = list(operands)
    needed = [i for i, need in enumerate(needs) if need]
    with torch.enable_grad():
        for i in needed:  # an operand may depend on another one: the derivative is by its place here, not by the tensor
            operand = operands[i]
            assert operand is not None
            operands[i] = operand.view_as(operand)
        y = compose(*operands)
    parts = torch.autograd.grad(y, [operands[i] for i in needed], grad, create_graph=True)  # type: ignore[arg-type]
    found = dict(zip(needed, parts, strict=True))
    return tuple(found.get(i) for i in range(len(needs)))
