"""The base class of likelihoods."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from whvi.arguments import whole_number
from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError, UnsupportedError
from whvi.ops import draw_seed


class Likelihood(nn.Module, ABC):
    """p(y | f): the distribution of a target y, given the output f of a network.

    Everything is a function of f (..., N, features), where the axes in front are draws of the function, and of targets
    y for the N rows. The predictive distribution is the mixture of p(y | f) over draws of f; its moments follow:
    E[y] = E[mean(f)] and Var[y] = E[variance(f)] + Var[mean(f)].

    Rows may have ``positions``, as tokens of a sequence or pixels of an image: f (..., N, *positions, features), and a
    target at each of them, independent given f. All values are then per position, except
    ``log_prob``, which sums over the positions of a row.
    """

    frozen_steps: int = 0
    """The number of first steps of ``whvi.fit`` that do not change the parameters of the likelihood."""
    outputs: int
    """Numbers in a target: classes for a categorical one."""
    positions: int = 0
    """The number of axes of positions in f and y, after that of the rows."""

    @property
    @abstractmethod
    def features(self) -> int:
        """The number of network outputs for a row: the last axis of f."""

    @abstractmethod
    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        """log p(y | f), summed over the positions and outputs of a row -> (..., N).

        Args:
            f: (..., N, *positions, features).
            y: for N rows, as ``targets`` gives it.
        """

    @abstractmethod
    def mean(self, f: Tensor) -> Tensor:
        """E[y | f]: (..., N, features) -> (..., N, outputs); the probabilities of a discrete target."""

    @abstractmethod
    def variance(self, f: Tensor) -> Tensor:
        """Var[y | f], as ``mean``."""

    @abstractmethod
    def entropy(self, f: Tensor) -> Tensor:
        """Entropy of p(y | f) in nats: (..., N, features) -> (..., N)."""

    @abstractmethod
    def sample(self, f: Tensor, seed: int | Tensor | None = None) -> Tensor:
        """A target for each row of f: (..., N, features) -> (..., N, [outputs])."""

    @abstractmethod
    def targets(self, y: Tensor) -> Tensor:
        """y in the shape and dtype of ``log_prob``; raises an error if y is invalid."""

    def output_shape(self, y: Tensor) -> tuple[int, ...]:
        """The required output shape of the network for targets y of ``targets``: (N, *positions, features)."""
        return (*y.shape[: 1 + self.positions], self.features)

    def over_positions(self, value: Tensor) -> Tensor:
        """The sum over the positions of a row: (..., N, *positions) -> (..., N)."""
        return value.flatten(-self.positions).sum(-1) if self.positions else value

    def cdf(self, f: Tensor, y: Tensor) -> Tensor:
        """P(target <= y | f) of each output: (..., N, features), (N, outputs) -> (..., N, outputs)."""
        raise UnsupportedError(
            f"targets of {type(self).__name__} have no order, so there are no quantiles and intervals"
        )

    @property
    def noise(self) -> float | None:
        """Standard deviation of the noise, if it is a single number."""
        return None

    def check(self, f: Tensor) -> None:
        """Raise the error that says what is wrong with f, unless it is (..., N, *positions, features)."""
        if not isinstance(f, Tensor):
            raise InputTypeError(f"f must be a torch.Tensor, got {type(f).__name__}; convert it with torch.as_tensor")
        if not f.is_floating_point():
            raise DtypeError(f"f has dtype {f.dtype}, but the output of a network must be floating point")
        if f.ndim < 2 + self.positions or f.shape[-1] != self.features:
            raise ShapeError(
                f"the model gives {tuple(f.shape)}, but {type(self).__name__} takes "
                f"{rows_of(self.positions, self.features)}; give the model {self.features} outputs"
            )

    def check_pair(self, f: Tensor, y: Tensor, *outputs: int) -> None:
        """Raise the error that says what is wrong, unless y is (..., N, *positions, *outputs) for the rows of f.

        Rows are not broadcast: a vector (N,) would be set against every row of f (N, 1).
        """
        self.check(f)
        if not isinstance(y, Tensor):
            raise InputTypeError(f"y must be a torch.Tensor, got {type(y).__name__}; convert it with torch.as_tensor")
        lead = y.ndim - 1 - self.positions - len(outputs)
        if lead < 0 or tuple(y.shape[y.ndim - len(outputs) :]) != outputs:
            wanted = rows_of(self.positions, *outputs)
            raise ShapeError(
                f"y has shape {tuple(y.shape)}, but {type(self).__name__} takes {wanted}; "
                "likelihood.targets(y) gives it that shape"
            )
        rows = y.shape[: lead + 1 + self.positions]
        if f.shape[:-1][-len(rows) :] != rows:
            raise ShapeError(
                f"y has shape {tuple(y.shape)}, but f {tuple(f.shape)}; there must be a target for each row of f"
            )


def check_positions(positions: object) -> int:
    """How many axes of positions there are, as a likelihood takes it."""
    return whole_number("positions", positions, least=0)


def rows_of(positions: int, *last: int) -> str:
    """A shape of targets in words.

    >>> rows_of(1, 2)
    '(rows, positions, 2)'
    """
    names = ", ".join(("rows", *("positions",) * positions, *map(str, last)))
    return f"({names})" if "," in names else f"({names},)"


def more_positions(y: Tensor, wanted: int, kind: str) -> str:
    """What to do about targets with more axes than wanted; "" about others."""
    more = y.ndim - wanted
    return f"; for targets at positions of a row use {kind}(..., positions={more})" if more > 0 else ""


def real_targets(y: object, outputs: int, positions: int = 0, kind: str = "Gaussian") -> Tensor:
    """Targets that are numbers as (N, *positions, outputs); (N,) will do for one output of a row."""
    if not isinstance(y, Tensor):
        raise InputTypeError(f"y must be a torch.Tensor, got {type(y).__name__}; convert it with torch.as_tensor")
    if y.ndim == 1 + positions and outputs == 1:
        y = y.unsqueeze(-1)
    if y.ndim != 2 + positions or y.shape[-1] != outputs:
        how = more_positions(y, 2, kind) if y.shape[-1:] == (outputs,) else ""
        raise ShapeError(f"y has shape {tuple(y.shape)}, but targets must be {rows_of(positions, outputs)}{how}")
    if y.is_complex():
        raise DtypeError(f"y has dtype {y.dtype}, but targets must be real")
    if not y.is_floating_point():
        y = _exact(y)
    bad = y.shape[0] - int(y.isfinite().flatten(1).all(1).sum())
    if bad:
        raise ArgumentError(f"y has NaN or inf in {bad} of {y.shape[0]} rows; remove these rows or fill them")
    return y


def _exact(y: Tensor) -> Tensor:
    """Whole numbers as floating-point ones of the same value: float32 has all of them up to 2^24 only."""
    found = y.to(torch.get_default_dtype())
    if rounded := int((found.to(y.dtype) != y).sum()):
        raise ArgumentError(
            f"y has dtype {y.dtype}, but {found.dtype} cannot represent {rounded} of its {y.numel()} whole numbers; "
            "standardise them, or convert them with y.double()"
        )
    return found


def seed_for(f: Tensor, seed: int | Tensor | None) -> int | Tensor:
    """The seed that was given, or a fresh one."""
    return draw_seed(device=f.device) if seed is None else seed
