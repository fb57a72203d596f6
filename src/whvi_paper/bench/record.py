"""What the scripts of ``benchmarks/`` have in common: measure, keep the record, print its table."""

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from whvi.io import atomic

Measurements = dict[str, Any]


def keep(path: Path, record: Measurements) -> None:
    """Write a record in one piece."""
    atomic.write_text(path, json.dumps(record, indent=1) + "\n")


def stored(path: Path) -> dict[str, Measurements]:
    """A record as it is now: place -> variant -> numbers; empty if there is none yet."""
    found: dict[str, Measurements] = json.loads(path.read_text()) if path.exists() else {}
    return found


def fill(
    path: Path, places: Sequence[str], variants: Iterable[str], measure: Callable[[str, str], Measurements]
) -> None:
    """Measure each variant at each place that the record lacks, and keep it after each of them."""
    for variant in variants:
        for place in places:
            if variant not in stored(path).get(place, {}):
                found = measure(place, variant)
                record = stored(path)  # another run may have added to it
                record.setdefault(place, {})[variant] = found
                keep(path, record)


def study(
    description: str,
    path: Path,
    datasets: Sequence[str],
    variants: Sequence[str],
    measure: Callable[[str, str], Measurements],
    table: Callable[[dict[str, Measurements]], str],
) -> None:
    """A script that compares variants on datasets; it takes names of datasets, ``--only`` and ``--table``.

    Args:
        description: for ``--help``.
        path: of the record.
        datasets, variants: what there is.
        measure: a variant on a dataset.
        table: shows the record, in Markdown.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", help=f"default: {', '.join(datasets)}")
    parser.add_argument("--only", action="append", choices=variants, metavar="VARIANT", help="may be repeated")
    parser.add_argument("--table", action="store_true", help="only print the table of the record")
    options = parser.parse_args()
    if unknown := [name for name in options.datasets if name not in datasets]:
        parser.error(f"datasets must be among {', '.join(datasets)}, got {', '.join(unknown)}")
    if not options.table:
        fill(path, options.datasets or datasets, options.only or variants, measure)
    print(table(stored(path)))


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
