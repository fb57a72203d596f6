"""How a call is recorded for autograd: as an operator in graphs, as an autograd.Function in eager execution."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from whvi.ops.torch_private import apply_eagerly, forward_mode_active, through_vmap, transforms_active, vmap_levels


def must_record(x: torch.Tensor) -> bool:
    """True when a derivative of a function of x alone may be asked for: backward, forward-mode or torch.func."""
    return (x.requires_grad or forward_mode_active() or transforms_active()) and not in_graph()


def only_vmap() -> bool:
    """True where torch.vmap is all that goes on: no tracer, no other transform of torch.func."""
    return vmap_levels() > 0


def one_vmap() -> bool:
    """True where a single torch.vmap is all that goes on."""
    return vmap_levels() == 1


def in_graph() -> bool:
    """True where torch.compile or torch.export trace: the graph gets the operator itself, which carries autograd."""
    return torch.compiler.is_compiling() and not transforms_active()


_graphs = threading.local()
"""Its ``closed``, if true, says that graphs which are being made in this thread have their gradients in them."""


@contextmanager
def closed_graphs() -> Iterator[None]:
    """A block in which the graphs that are made (make_fx) hold their gradients: nobody will differentiate them.

    Operators without a gradient of their own may then be in them.
    """
    before, _graphs.closed = getattr(_graphs, "closed", False), True
    try:
        yield
    finally:
        _graphs.closed = before


def in_closed_graph() -> bool:
    """True where such a graph is being made, and nothing else goes on."""
    closed: bool = getattr(_graphs, "closed", False)
    return closed and not (torch.compiler.is_compiling() or transforms_active() or forward_mode_active())


def record(function: type[torch.autograd.Function], *args: Any) -> Any:
    """``function.apply(*args)`` for positional arguments.

    Plain eager execution has no use for what ``Function.apply`` does first, torch.compile and torch.func do.
    """
    if torch.compiler.is_compiling() or transforms_active():
        return function.apply(*args)
    return apply_eagerly(function, *args)


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
    return through_vmap(plain, rule, BatchInfo, args)


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
