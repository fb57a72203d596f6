"""What ``adapt`` put beside which modules, as rows and as a text."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from whvi.convert.lines import lines


class Row(NamedTuple):
    """One module of the model."""

    name: str
    """Dotted name; "" for the model itself."""
    kind: str
    """Class, such as "Linear"."""
    shape: tuple[int, ...]
    """Of its weight; () where there are several."""
    base: int
    """Numbers of its weights."""
    delta: int
    """Numbers of its deltas; zero where it has none."""
    note: str = ""
    """Why it has no delta, or what else is to be said."""


@dataclass(frozen=True)
class Report:
    """Which modules were adapted, which were not, and why; ``print`` it.

    >>> print(Report((Row("0", "Linear", (64, 64), 4096, 256),), 5000, 256))
    name  kind    shape    weights  delta
    0     Linear  64 x 64    4,096    256
    1 module adapted: 256 numbers beside 4,096 (6.2 %). Whole model: 5,000 numbers, 256 trained.
    """

    rows: tuple[Row, ...]
    total: int
    """Parameters of the base."""
    trained: int
    """Parameters that are trained: of the deltas, and of the base."""
    draws: str = ""
    """Of all linear deltas: "example" or "batch"; "" where there are none, or both kinds."""
    conv_draws: str = ""
    """The same of convolutions."""

    @property
    def adapted(self) -> tuple[Row, ...]:
        """The rows of modules with a delta."""
        return tuple(row for row in self.rows if row.delta)

    @property
    def left(self) -> tuple[Row, ...]:
        """The rows of modules without one."""
        return tuple(row for row in self.rows if not row.delta)

    @property
    def numbers(self) -> int:
        """Of all deltas."""
        return sum(row.delta for row in self.rows)

    def __str__(self) -> str:
        width = max([len("weights"), *(len(f"{row.base:,}") for row in self.adapted)])

        def cells(row: Row) -> tuple[str, ...]:
            return f"{row.base:{width},}", f"{row.delta:,}"

        left, draws = "without a delta:", (self.draws, self.conv_draws)
        text = lines(("weights", "delta"), cells, self.adapted, self.left, left, draws)
        count, beside = len(self.adapted), sum(row.base for row in self.adapted)
        text.append(
            f"{count} module{'s' * (count != 1)} adapted: {self.numbers:,} numbers beside {beside:,} "
            f"({100 * self.numbers / max(beside, 1):.1f} %). Whole model: {self.total:,} numbers, "
            f"{self.trained:,} trained."
        )
        return "\n".join(text)


class Adapted(NamedTuple):
    """The model, the same object, and what was done to it."""

    model: nn.Module
    report: Report
