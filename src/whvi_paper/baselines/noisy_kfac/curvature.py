"""What noisy K-FAC keeps of a matrix-variate Gaussian layer, and what it makes of it: of one layer, or of R alike."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import vmap

from whvi.errors import ArgumentError, DtypeError
from whvi.posterior import kl
from whvi_paper.baselines.matrix_gaussian import MatrixGaussian

BUFFERS = ("input_moment", "output_moment", "input_root", "output_root")
STATE = ("velocity", "input_inverse", "output_inverse")
TINY = 1e-12  # second moments below this are those of a layer that no gradient reaches


class Curvature:
    """Second moments A and S of a layer, the covariance and the inverses that belong to them, and the momentum.

    All tensors may have an axis of replicas in front of those of the layer. They are changed in place.

    Args:
        layer: whose shapes, groups and prior these are.
        mean: (..., outputs, columns).
        tensors: moments and roots by their names, as the layer has them.
        scale: kl_weight / N, float64: () or (replicas,).
        name: of the layer in its model, for messages.
    """

    def __init__(
        self, layer: MatrixGaussian, mean: Tensor, tensors: Mapping[str, Tensor], scale: Tensor, name: str = ""
    ) -> None:
        self.layer, self.mean, self.scale, self.name = layer, mean, scale.to(mean.device), called(name)
        self.input_moment, self.output_moment, self.input_root, self.output_root = (tensors[name] for name in BUFFERS)
        self.velocity = torch.zeros_like(mean, requires_grad=False)
        self.input_inverse, self.output_inverse = map(torch.zeros_like, (self.input_root, self.output_root))
        self._start()
        self.spread()

    @torch.no_grad()
    def observe(self, calls: Sequence[tuple[Tensor, Tensor]], rows: int, weight: float) -> None:
        """Average inputs of the layer, and gradients of its outputs, in a pass of ``rows`` rows into A and S."""
        inputs = torch.cat([self._rows(self.layer.input_rows, x) for x, _ in calls], -2)
        outputs = torch.cat([self._rows(self.layer.output_rows, gradient) for _, gradient in calls], -2)
        # A row may meet the weight at several positions: its curvature is their sum, which is put into A.
        for moment, seen, count in ((self.input_moment, inputs, rows), (self.output_moment, outputs, inputs.shape[-2])):
            moment.lerp_((seen.mT @ seen / count).to(moment.dtype), weight)

    @torch.no_grad()
    def refresh(self, damping: float) -> None:
        """The covariance that belongs to A and S, and the inverses that ``natural`` multiplies with."""
        moments = self.input_moment.double(), self.output_moment.double()
        for moment in moments:
            _refuse(
                ~moment.isfinite().flatten(-3).all(-1),
                f"the curvature of {self.name} is not finite",
                "the run has diverged; reduce learning_rate, or limit the steps with clip",
            )
        intrinsic = self.scale / self.layer.prior_variance
        factors = self._factors(moments, intrinsic, "lower prior_variance")
        for root, lower in zip((self.input_root, self.output_root), factors, strict=True):
            unit = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
            inverse = torch.linalg.solve_triangular(lower, unit.expand_as(lower), upper=False)
            root.copy_(inverse.mT * _matrix(self.scale**0.25))
        factors = self._factors(moments, intrinsic + damping, "raise damping")
        for inverse, lower in zip((self.input_inverse, self.output_inverse), factors, strict=True):
            inverse.copy_(torch.cholesky_inverse(lower))
        self.spread()

    @torch.no_grad()
    def spread(self) -> None:
        """What the spread of the weights adds to the KL. To be called where the roots are set: it is kept."""
        nowhere = torch.zeros_like(self.mean).unflatten(-2, (self.layer.groups, -1))
        arguments = nowhere, self.output_root, self.input_root
        of_one = partial(kl.matrix_gaussian, variance=self.layer.prior_variance)
        self._spread: Tensor = of_one(*arguments) if self.mean.ndim == 2 else vmap(of_one)(*arguments)

    def kl(self) -> Tensor:
        """KL to the prior, which is quadratic in the mean: (), or (replicas,)."""
        return self._spread + self.mean.square().sum((-2, -1)) * (0.5 / self.layer.prior_variance)

    def natural(self, gradient: Tensor) -> Tensor:
        """A gradient of the mean divided by the damped curvature, on both sides: (..., outputs, columns)."""
        blocks = gradient.unflatten(-2, (self.layer.groups, -1))
        steps: Tensor = self.output_inverse @ blocks @ self.input_inverse
        return steps.flatten(-3, -2)

    def _start(self) -> None:
        """Give a layer without curvature one that explains its spread.

        It fades as that of the data comes in, which at first is that of one batch, with many directions that nothing is
        known of.
        """
        fresh = ~self.input_moment.flatten(-3).any(-1)
        for moment, root, part in (
            (self.input_moment, self.input_root, torch.ones_like(self.scale)),
            (self.output_moment, self.output_root, self.scale),
        ):
            chosen = root[fresh]
            inverse, info = torch.linalg.inv_ex((chosen @ chosen.mT).double())
            failed = fresh.masked_scatter(fresh, info.any(-1))
            _refuse(failed, f"the spread of {self.name} has no inverse", "create the layer again, or use float64")
            moment[fresh] = (_matrix(part[fresh]) * inverse).to(moment.dtype)

    def _factors(self, moments: tuple[Tensor, Tensor], damping: Tensor, remedy: str) -> list[Tensor]:
        """Cholesky factors of A + pi sqrt(damping) and S + sqrt(damping) / pi, for each group."""
        found = []
        for matrix in _damped(*moments, damping):
            lower, info = torch.linalg.cholesky_ex(matrix)
            _refuse(
                info.any(-1),
                f"the curvature of {self.name} is not positive definite",
                f"standardise the inputs of the model, use float64, or {remedy}",
            )
            found.append(lower)
        return found

    def _rows(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The vectors in x, for each replica where there are some: (..., groups, vectors, size)."""
        return function(x) if self.mean.ndim == 2 else vmap(function)(x)


def gaussian_layers(model: nn.Module) -> dict[str, MatrixGaussian]:
    """The layers of a model that noisy K-FAC trains, by name; at least one."""
    named = {n: m for n, m in model.named_modules() if isinstance(m, MatrixGaussian) and m.mean.requires_grad}
    if not named:
        raise ArgumentError(
            "the model has no layer for noisy K-FAC to train; build it of MatrixGaussianLinear and "
            "MatrixGaussianConv2d, or use another algorithm"
        )
    for name, layer in named.items():
        if layer.mean.dtype not in (torch.float32, torch.float64):
            raise DtypeError(f"{called(name)} is {layer.mean.dtype}, but curvature needs float32 or float64")
    return named


def called(name: str) -> str:
    """What a message calls the layer of that name.

    >>> called("0"), called("")
    ("layer '0'", 'the model')
    """
    return f"layer {name!r}" if name else "the model"


def _refuse(bad: Tensor, what: str, remedy: str) -> None:
    """Raise the error that says what is wrong, and in which replicas, where ``bad`` is true: () or (replicas,)."""
    if bad.any():
        where = f" in replicas {bad.nonzero().flatten().tolist()}" if bad.ndim else ""
        raise ArgumentError(f"{what}{where}: {remedy}")


def _damped(inputs: Tensor, outputs: Tensor, damping: Tensor) -> tuple[Tensor, Tensor]:
    """A + pi sqrt(damping) and S + sqrt(damping) / pi, for each group."""
    sizes = (moment.diagonal(dim1=-2, dim2=-1).mean(-1).clamp_min(TINY) for moment in (inputs, outputs))
    input_size, output_size = sizes
    ratio = (input_size / output_size).sqrt()
    found = []
    for moment, part in ((inputs, ratio), (outputs, 1.0 / ratio)):
        unit = torch.eye(moment.shape[-1], dtype=moment.dtype, device=moment.device)
        size = damping.sqrt()[..., None] * part
        found.append(moment + size[..., None, None] * unit)
    return found[0], found[1]


def _matrix(value: Tensor) -> Tensor:
    """A number for each replica in a shape that broadcasts to (..., groups, n, n)."""
    return value[..., None, None, None]
