"""The return value of a model, and the tensor in it for the likelihood."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from whvi.annotations import checked
from whvi.errors import InputTypeError

Output = Callable[[Any], Tensor]
"""Maps the return value of a model to the tensor for the likelihood."""


class WithOutput(nn.Module):
    """A model whose return value is mapped by a function: the form of ``output=`` in fit, elbo and predict.

    Args:
        model: it is a part of this module, not copied.
        output: maps the return value of the model to a tensor.

    >>> recurrent = WithOutput(nn.LSTM(3, 5), lambda found: found[0][-1])
    >>> import torch
    >>> recurrent(torch.randn(7, 2, 3)).shape
    torch.Size([2, 5])
    """

    @checked
    def __init__(self, model: nn.Module, output: Output) -> None:
        super().__init__()
        if not callable(output):
            raise InputTypeError(
                f"output must be a function of what the model returns, as lambda found: found.logits, got {output!r}"
            )
        self.model, self.output = model, output

    def forward(self, *args: Any, **keywords: Any) -> Tensor:
        """The output of the model at its arguments."""
        found: object = self.output(self.model(*args, **keywords))
        if not isinstance(found, Tensor):
            raise InputTypeError(f"output must give a torch.Tensor, got {type(found).__name__}")
        return found


def with_output(model: nn.Module, output: Output | None) -> nn.Module:
    """The model, wrapped if an output is given."""
    return model if output is None else WithOutput(model, output)


def tensor_of(found: object) -> Tensor:
    """The tensor in what a model returned: itself, its ``logits`` (attribute or key), or the first of a tuple.

    >>> import torch
    >>> tensor_of({"loss": None, "logits": torch.ones(2)})
    tensor([1., 1.])
    """
    if isinstance(found, Tensor):
        return found
    inner = getattr(found, "logits", None)
    if inner is None and isinstance(found, Mapping):
        inner = found.get("logits")
    elif inner is None and isinstance(found, tuple | list) and found:
        inner = found[0]
    if isinstance(inner, Tensor):
        return inner
    names = f" with {', '.join(map(str, found))}" if isinstance(found, Mapping) else ""
    raise InputTypeError(
        f"the model must give a torch.Tensor, an object with logits or a tuple that begins with a tensor, got "
        f"{type(found).__name__}{names}; give output=, a function of what the model returns that gives the tensor"
    )
