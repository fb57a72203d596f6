"""What a command of the terminal did."""

from collections.abc import Callable
from typing import NamedTuple

QUICK = ("--steps", "80", "--hidden", "16")


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    def mistake(self) -> str:
        """The one line of a user's mistake."""
        assert self.code == 2, self
        assert self.err.startswith("whvi: "), self
        assert self.err.count("\n") == 1, self
        return self.err


Run = Callable[..., Outcome]
