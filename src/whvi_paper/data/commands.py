"""What this package adds to the command line: ``whvi datasets list | fetch | check``."""

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from whvi.cli import PAPER
from whvi_paper.data import fetching
from whvi_paper.data.catalogue import DATASETS, named
from whvi_paper.data.dataset import Dataset
from whvi_paper.data.fetching import DataError

COLUMNS = ("name", "task", "rows", "features", "outputs", "found")
"""As many as 80 characters hold."""


def add_commands(app: typer.Typer) -> None:
    """Add the group ``datasets`` to the app."""
    group = typer.Typer(no_args_is_help=True, help="List, fetch and check the datasets of the paper.")
    app.add_typer(group, name="datasets", rich_help_panel=PAPER)

    @group.command("list", epilog="Example: whvi datasets list --verbose")
    def list_command(
        verbose: Annotated[bool, typer.Option("--verbose", help="Also origins, licences, files, sha256.")] = False,
    ) -> None:
        """List all datasets and their locations. Set WHVI_DATA to a folder with your own copies."""
        show(verbose, Console())

    @group.command("fetch", epilog="Example: whvi datasets fetch mocap")
    def fetch_command(name: Annotated[str, typer.Argument(help="A name from `whvi datasets list`.")]) -> None:
        """Download a dataset into the cache, check it, and print its path."""
        typer.echo(fetching.fetch(named(name)))

    @group.command("check", epilog="Example: whvi datasets check")
    def check_command() -> None:
        """Verify every local dataset: sha256, shape, classes. Exit code 1 if one is wrong."""
        found = False
        for good, line in verdicts():
            typer.echo(line)
            found |= not good
        raise typer.Exit(1 if found else 0)


def place(dataset: Dataset) -> str:
    """Where the dataset is found: "generated", "WHVI_DATA", "cache" or "not here"."""
    if dataset.simulator:
        return "generated"
    copy = fetching.find(dataset)
    if copy is None:
        return "not here"
    folder = fetching.data_folder()
    return "WHVI_DATA" if folder and copy[0].is_relative_to(folder) else "cache"


def show(verbose: bool, console: Console) -> None:
    """Print the table, and with ``verbose`` what is known of each origin."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, no_wrap=True)
    for dataset in DATASETS.values():
        numbers = f"{dataset.rows:,}", str(len(dataset.features)), str(len(dataset.targets))
        table.add_row(dataset.name, dataset.task, *numbers, place(dataset))
    console.print(table)
    if verbose:
        for line in origins():
            console.print(line, soft_wrap=True, markup=False, highlight=False)


def origins() -> Iterator[str]:
    """For each dataset its page, its note, its licence, and its files with what they are known by."""
    for dataset in DATASETS.values():
        yield f"\n{dataset.name}: {dataset.origin}" + (f" ({dataset.note})" if dataset.note else "")
        yield f"  licence: {dataset.licence}"
        for file in dataset.files:
            known = (
                f"sha256 {file.sha256}" if file.sha256 else "sha256 not known: rows, features and classes are checked"
            )
            yield f"  {file.name}: {known}" + (f", {file.url}" if file.url else "")


def verdicts() -> Iterator[tuple[bool, str]]:
    """For each dataset that is here, whether it is good, and a line that says so."""
    for dataset in DATASETS.values():
        copy = fetching.find(dataset)
        if copy is None:
            continue
        path, file = copy
        try:
            fetching.read(dataset, file, path)
        except DataError as error:
            yield False, f"bad   {dataset.name}: {error}"
        else:
            yield True, f"good  {dataset.name}: {path}"
