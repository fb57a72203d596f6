"""What the scripts of ``benchmarks/`` have in common: measure, keep the record, print its table."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whvi.io import atomic

Measurements = dict[str, Any]


def keep(path: Path, record: Measurements) -> None:
    """Write a record in one piece."""
    atomic.write_text(path, json.dumps(record, indent=1) + "\n")


def main(
    description: str, path: Path, measure: Callable[[int], Measurements], table: Callable[[Measurements], str]
) -> None:
    """A script that takes ``--rounds`` and ``--table``.

    Args:
        description: for ``--help``; the first line is shown.
        path: of the record.
        measure: makes it, in so many rounds.
        table: shows it, in Markdown.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print the table of the stored record")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    if not options.table:
        keep(path, measure(options.rounds))
    print(table(json.loads(path.read_text())))
