"""What the report adds to the command line: ``whvi report`` and ``whvi results``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whvi.cli import PAPER
from whvi.errors import ArgumentError

if TYPE_CHECKING:
    from whvi_paper.blocks import Shown

Results = Annotated[
    Path | None,
    typer.Option(help="Folder of records. Default: the folder of whvi reproduce for the profile.", show_default=False),
]
Profile = Annotated[str, typer.Option(help="Show the records of this profile: recipe, paper, quick or smoke.")]


def add_commands(app: typer.Typer) -> None:
    """Add both commands to the app."""

    @app.command(
        "report",
        rich_help_panel=PAPER,
        epilog="Example: whvi report -o out/report/index.html --markdown docs/results.md",
    )
    def report(
        results: Results = None,
        profile: Profile = "recipe",
        out: Annotated[Path, typer.Option("--out", "-o", help="File for the page.")] = Path("out/report/index.html"),
        markdown: Annotated[
            Path | None, typer.Option(help="Also write this Markdown file, and its figures to a folder next to it.")
        ] = None,
    ) -> None:
        """Write one page that compares all results with the paper's numbers."""
        typer.echo(f"report: {write(find(results, profile), out, markdown)}")
        if markdown is not None:
            typer.echo(f"markdown: {markdown}")

    @app.command("results", rich_help_panel=PAPER, epilog="Example: whvi results --json > results.json")
    def published(
        results: Results = None,
        profile: Profile = "recipe",
        json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
    ) -> None:
        """List every published number and the paper's."""
        show(find(results, profile), json)


def find(results: Path | None, profile: str) -> "list[Shown]":
    """All exhibits that have records of a profile; ArgumentError if there are none."""
    from whvi_paper import recipe
    from whvi_paper.exhibits import show_all
    from whvi_paper.store import home

    recipe.profile(profile)  # a mistake is reported before work
    folder = results or home(profile)
    shown = show_all(folder, profile)
    if not shown:
        advice = f"give their folder with --results, or compute some: whvi reproduce EXHIBIT --profile {profile}"
        raise ArgumentError(f"{folder} has no records of the profile {profile}; {advice}")
    return shown


def write(shown: "Sequence[Shown]", out: Path, markdown_path: Path | None) -> Path:
    """The page, and the Markdown file where one is asked for; the path of the page."""
    from whvi.io import atomic
    from whvi_paper.report import markdown, write_html

    if markdown_path is not None:
        atomic.write_text(markdown_path, markdown(shown, markdown_path.with_suffix("")))
    return write_html(shown, out)


def show(shown: "Sequence[Shown]", as_json: bool) -> None:
    """Print the entries of all exhibits."""
    from rich.console import Console

    from whvi_paper.report import entries_json, terminal_tables

    entries = [entry for exhibit in shown for entry in exhibit.numbers]
    if as_json:
        typer.echo(entries_json(entries))
    else:
        Console().print(*terminal_tables(entries), sep="\n")
