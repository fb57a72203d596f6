"""The unit of work: some records that are computed together, and the function that computes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Inputs = Mapping[str, Any]
"""All that determines a record, as JSON values. Its hash is the record's name."""
Results = Mapping[str, Any]
"""What was found: ``metrics`` (JSON values), and where they apply ``parameters``, ``curve``."""
Report = Callable[[float], None]
"""Called by a function with the share of its work that is done."""


@dataclass(frozen=True)
class Job:
    """Records of one exhibit that are computed in one process.

    ``function`` is a module-level function: it is called with the inputs of the records that are missing, a folder for
    its checkpoints, and a function to report progress with; it returns the results in the order of the inputs.
    """

    exhibit: str
    label: str
    """For people: "whvi yacht 2x128"."""
    inputs: tuple[Inputs, ...]
    function: Callable[[Sequence[Inputs], Path, Report], Sequence[Results]]
    cost: float = 1.0
    """Roughly the minutes it takes: long ones are begun first."""
    load: Callable[[str], object] | None = None
    """Reads the dataset of its inputs, or raises a WhviError; None for ``whvi_paper.data.load``."""
