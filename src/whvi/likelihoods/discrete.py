"""Likelihoods of classes and binary targets."""

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from whvi.annotations import checked
from whvi.arguments import any_whole_number, whole_number
from whvi.errors import ArgumentError, DtypeError, InputTypeError, ShapeError
from whvi.likelihoods.base import Likelihood, check_positions, more_positions, real_targets, rows_of, seed_for
from whvi.ops import normal


class Discrete(Likelihood):
    """Targets that take few values: ``mean`` is their probabilities, which say all there is to say."""

    @abstractmethod
    def entropy_of(self, probabilities: Tensor) -> Tensor:
        """Entropy of targets of these probabilities, in nats: (..., N, *positions, outputs) -> (..., N, *positions)."""

    def entropy(self, f: Tensor) -> Tensor:
        """Of the probabilities that f stands for."""
        return self.entropy_of(self.mean(f))


class Categorical(Discrete):
    """y in 0 ... classes - 1 with probabilities softmax(f).

    Args:
        classes: their number. Their logits are the last axis of f, for images too.
        positions: axes of positions: 0, one label for each row; 1, for each token; 2, for each pixel.
        ignore_index: the label of positions to ignore, such as padding: their log-density is zero. Default none.

    >>> Categorical(2).log_prob(torch.zeros(1, 2), torch.tensor([1]))
    tensor([-0.6931])
    >>> Categorical(2, positions=1, ignore_index=-100).log_prob(torch.zeros(1, 3, 2), torch.tensor([[1, 0, -100]]))
    tensor([-1.3863])
    """

    @checked
    def __init__(self, classes: int, *, positions: int = 0, ignore_index: int | None = None) -> None:
        super().__init__()
        self.outputs = whole_number("classes", classes, least=2)
        self.positions = check_positions(positions)
        self.ignore_index = None if ignore_index is None else any_whole_number("ignore_index", ignore_index)

    @property
    def features(self) -> int:
        """A logit for each class."""
        return self.outputs

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        """(..., N, *positions, classes), labels (N, *positions) -> (..., N)."""
        self.check_pair(f, y)
        log_probabilities = f.log_softmax(-1)
        labels = y if self.ignore_index is None else y.masked_fill(y == self.ignore_index, 0)
        found = log_probabilities.gather(-1, labels.expand(f.shape[:-1]).unsqueeze(-1)).squeeze(-1)
        if self.ignore_index is not None:
            found = found.masked_fill(y == self.ignore_index, 0.0)
        return self.over_positions(found)

    def mean(self, f: Tensor) -> Tensor:
        """The probability of each class."""
        self.check(f)
        return f.softmax(-1)

    def variance(self, f: Tensor) -> Tensor:
        """p (1 - p): of the indicator of each class."""
        p = self.mean(f)
        return p * (1.0 - p)

    def entropy_of(self, probabilities: Tensor) -> Tensor:
        """- sum p log p."""
        value: Tensor = torch.special.entr(probabilities).sum(-1)
        return value

    def sample(self, f: Tensor, seed: int | Tensor | None = None) -> Tensor:
        """A class for each row: (..., N), int64."""
        self.check(f)
        uniform = torch.special.ndtr(normal(seed_for(f, seed), 0, (*f.shape[:-1], 1), dtype=torch.float64))
        below = f.softmax(-1).double().cumsum(-1) < uniform
        value: Tensor = below.sum(-1).clamp_max(self.outputs - 1)
        return value

    def targets(self, y: Tensor) -> Tensor:
        """Labels (N, *positions) of an integer dtype, each in 0 ... classes - 1 or the one to ignore."""
        if not isinstance(y, Tensor):
            raise InputTypeError(f"y must be a torch.Tensor, got {type(y).__name__}; convert it with torch.as_tensor")
        if y.ndim == 2 + self.positions and y.shape[-1] == 1:
            y = y.squeeze(-1)
        if y.ndim != 1 + self.positions:
            how = more_positions(y, 1, "Categorical")
            raise ShapeError(
                f"y has shape {tuple(y.shape)}, but labels of classes must be {rows_of(self.positions)}{how}"
            )
        if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
            raise DtypeError(f"y has dtype {y.dtype}, but labels of classes must be integers; convert with y.long()")
        y = y.long()
        known = y if self.ignore_index is None else y[y != self.ignore_index]
        if known.numel() and not (int(known.min()) >= 0 and int(known.max()) < self.outputs):
            raise ArgumentError(
                f"labels must be 0 ... {self.outputs - 1} for {self.outputs} classes, got {int(known.min())} ... "
                f"{int(known.max())}; give the likelihood as many classes as there are, count labels from 0, and name "
                "a label that stands for none, such as -100, by ignore_index"
            )
        return y

    def extra_repr(self) -> str:
        """For ``print``."""
        more = {"positions": self.positions or None, "ignore_index": self.ignore_index}
        return f"classes={self.outputs}" + "".join(f", {k}={v}" for k, v in more.items() if v is not None)


class Bernoulli(Discrete):
    """Independent outputs, each 1 with probability sigmoid(f), otherwise 0.

    Args:
        outputs: numbers in a target.
        positions: axes of positions between rows and outputs.

    >>> Bernoulli().log_prob(torch.zeros(1, 1), torch.ones(1, 1))
    tensor([-0.6931])
    """

    @checked
    def __init__(self, outputs: int = 1, *, positions: int = 0) -> None:
        super().__init__()
        self.outputs, self.positions = whole_number("outputs", outputs), check_positions(positions)

    @property
    def features(self) -> int:
        """A logit for each output."""
        return self.outputs

    def log_prob(self, f: Tensor, y: Tensor) -> Tensor:
        """(..., N, *positions, outputs), (N, *positions, outputs) of 0 and 1 -> (..., N)."""
        self.check_pair(f, y, self.outputs)
        return self.over_positions((logsigmoid(-f) + y * f).sum(-1))

    def mean(self, f: Tensor) -> Tensor:
        """The probability of a 1."""
        self.check(f)
        return f.sigmoid()

    def variance(self, f: Tensor) -> Tensor:
        """p (1 - p)."""
        self.check(f)
        return f.sigmoid() * (-f).sigmoid()

    def entropy_of(self, probabilities: Tensor) -> Tensor:
        """Summed over outputs."""
        value: Tensor = (torch.special.entr(probabilities) + torch.special.entr(1.0 - probabilities)).sum(-1)
        return value

    def sample(self, f: Tensor, seed: int | Tensor | None = None) -> Tensor:
        """0 and 1: (..., N, outputs)."""
        self.check(f)
        uniform = torch.special.ndtr(normal(seed_for(f, seed), 0, f.shape, dtype=torch.float64))
        value: Tensor = (uniform < f.sigmoid()).to(f.dtype)
        return value

    def targets(self, y: Tensor) -> Tensor:
        """(N, *positions, outputs) of 0 and 1; (N, *positions) will do for one output."""
        y = real_targets(y, self.outputs, self.positions, "Bernoulli")
        if not ((y == 0.0) | (y == 1.0)).all():
            raise ArgumentError(f"targets must be 0 or 1, got {float(y.min())} ... {float(y.max())}")
        return y

    def extra_repr(self) -> str:
        """For ``print``."""
        return f"outputs={self.outputs}"
