"""``whvi summary``: parameters of the convolutional networks under each treatment of their weights."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from whvi.errors import ArgumentError


def summary(
    model: Annotated[str | None, typer.Argument(help="A network. Omit it to list all networks.")] = None,
    treatment: Annotated[str | None, typer.Option(help="Show only this treatment, layer by layer.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Count the parameters of the convolutional networks."""
    from whvi_paper.networks.counts import by_layer, by_model, by_treatment

    if model is None and treatment is not None:
        raise ArgumentError(f"--treatment {treatment} needs a MODEL; whvi summary lists the models")
    if model is None:
        show_rows("whvi summary", by_model(), as_json)
    elif treatment is None:
        show_rows(f"whvi summary {model}", by_treatment(model), as_json)
    else:
        show_rows(f"whvi summary {model} --treatment {treatment}", by_layer(model, treatment), as_json)


def show_rows(title: str, rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print rows with the same names as a table, or as JSON: shares as per cent, whole numbers with commas."""
    from rich.console import Console
    from rich.table import Table

    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(title=title, box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        table.add_column(name.replace("_", " "), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    Console().print(table)


def _shown(value: str | float | None) -> str:
    if isinstance(value, float):
        return f"{value:.2%}"
    return f"{value:,}" if isinstance(value, int) else value or "-"
