"""What a conversion did, as rows and as a text."""

from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from whvi.convert.lines import lines


class Row(NamedTuple):
    """One layer of the model that was given."""

    name: str
    """Dotted name; "" for the model itself."""
    kind: str
    """Class, such as "Linear"."""
    shape: tuple[int, ...]
    """Of its weight; () where there is no single one."""
    before: int
    """Its parameters."""
    after: int
    """Parameters of what stands there now; zero where it only shares those of an earlier row."""
    error: float | None = None
    """|W - W_hat| / |W| of the mean weight, where the layer was fitted to the dense one."""
    note: str = ""
    """Why it was left as it is, or with whom it shares its posterior."""
    replaced: bool = False


@dataclass(frozen=True)
class Report:
    """Which layers ``bayesianize`` replaced, which it did not, and why; ``print`` it.

    >>> report = Report((Row("0", "Linear", (64, 64), 4160, 384, 0.9, replaced=True),), 5000, 1224)
    >>> print(report)
    name  kind    shape    parameters    error
    0     Linear  64 x 64  4,160 -> 384   0.90
    1 layer replaced: 4,160 -> 384 parameters (9.2 %). Whole model: 5,000 -> 1,224.
    """

    rows: tuple[Row, ...]
    total_before: int
    """Parameters of the whole model that was given."""
    total_after: int
    """Parameters of the whole model that was made."""
    draws: str = ""
    """Of all linear layers that were made: "example" or "batch"; "" where there are none, or both kinds."""
    conv_draws: str = ""
    """The same of convolutions."""

    @property
    def replaced(self) -> tuple[Row, ...]:
        """The rows of layers that were replaced."""
        return tuple(row for row in self.rows if row.replaced)

    @property
    def left(self) -> tuple[Row, ...]:
        """The rows of layers that were left as they are."""
        return tuple(row for row in self.rows if not row.replaced)

    @property
    def before(self) -> int:
        """Parameters of all linear layers, convolutions and attention, before."""
        return sum(row.before for row in self.rows)

    @property
    def after(self) -> int:
        """The same, after."""
        return sum(row.after for row in self.rows)

    @property
    def share(self) -> float:
        """after / before."""
        return self.after / self.before if self.before else 1.0

    def __str__(self) -> str:
        left, draws = "left as they are:", (self.draws, self.conv_draws)
        text = lines(("parameters", "error"), _cells, self.replaced, self.left, left, draws)
        count = len(self.replaced)
        before, after = sum(row.before for row in self.replaced), sum(row.after for row in self.replaced)
        text.append(
            f"{count} layer{'s' * (count != 1)} replaced: {before:,} -> {after:,} parameters "
            f"({100 * after / max(before, 1):.1f} %). Whole model: {self.total_before:,} -> {self.total_after:,}."
        )
        return "\n".join(text)


class Converted(NamedTuple):
    """A model, and what was done to it."""

    model: nn.Module
    report: Report


def _cells(row: Row) -> tuple[str, ...]:
    return f"{row.before:,} -> {row.after:,}", "-" if row.error is None else f"{row.error:.2f}"
