"""What a forward pass of a model does with its layers: of one model, or of many under vmap."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor, nn

from whvi.ops.recording import BatchInfo, in_front, only_vmap, under_vmap


@dataclass
class LayerCalls:
    """What a forward pass of a model does with its layers."""

    calls: list[tuple[nn.Module, Tensor, Tensor]] = field(default_factory=list)
    """Layer, input and output of each call; under vmap those of all replicas, which are the first axis."""
    result: list[Tensor] = field(default_factory=list)
    """Output of the model."""


@contextmanager
def recording(model: nn.Module, layers: Sequence[nn.Module]) -> Iterator[LayerCalls]:
    """A block in which forward passes of a model are recorded, under vmap as well."""
    record = LayerCalls()

    def keep(layer: nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor], output: Tensor) -> Tensor:
        def plain(x: Tensor, y: Tensor) -> Tensor:
            record.calls.append((layer, x.detach(), y))
            return y.clone()  # what follows may change it in place, and then it has no gradient of its own

        def of_all(info: BatchInfo, dims: Sequence[int | None], *pair: Tensor) -> tuple[Tensor, int]:
            x, y = in_front(dims, pair, info.batch_size)
            assert x is not None
            assert y is not None
            return plain(x, y), 0

        seen = (*inputs, *named.values())[0]
        return under_vmap(plain, of_all, seen, output) if only_vmap() else plain(seen, output)

    hooks = [layer.register_forward_hook(keep, with_kwargs=True) for layer in layers]
    hooks.append(model.register_forward_hook(lambda _model, _inputs, output: record.result.append(output)))
    try:
        yield record
    finally:
        for hook in hooks:
            hook.remove()
