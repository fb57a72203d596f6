"""What the report adds to the command line: ``whvi report`` and ``whvi results``."""

from pathlib import Path
from typing import Annotated

import typer

Results = Annotated[Path, typer.Option(help="Folder of the stored records.")]


def add_commands(app: typer.Typer) -> None:
    """Add both commands to the app."""

    @app.command("report", epilog="Example: whvi report --out out/report/index.html --markdown docs/results.md")
    def report(
        results: Results = Path("results"),
        out: Annotated[Path, typer.Option(help="The page that is written.")] = Path("out/report/index.html"),
        markdown: Annotated[
            Path | None, typer.Option(help="Also write this Markdown file, with its figures in a folder beside it.")
        ] = None,
    ) -> None:
        """Show all exhibits beside the paper's numbers, in one page that needs no network."""
        typer.echo(f"report: {write(results, out, markdown)}")
        if markdown is not None:
            typer.echo(f"markdown: {markdown}")

    @app.command("results", epilog="Example: whvi results --json > results.json")
    def published(
        results: Results = Path("results"),
        json: Annotated[bool, typer.Option("--json", help="Print a list of objects for other programs.")] = False,
    ) -> None:
        """List every published number with the paper's."""
        show(results, json)


def write(results: Path, out: Path, markdown_path: Path | None) -> Path:
    """The page, and the Markdown file where one is asked for; the path of the page."""
    from whvi.io import atomic
    from whvi_paper.exhibits import show_all
    from whvi_paper.report import markdown, write_html

    shown = show_all(results)
    if markdown_path is not None:
        atomic.write_text(markdown_path, markdown(shown, markdown_path.with_suffix("")))
    return write_html(shown, out)


def show(results: Path, as_json: bool) -> None:
    """Print the entries of all exhibits."""
    from rich.console import Console

    from whvi_paper.exhibits import show_all
    from whvi_paper.report import entries_json, terminal_table

    entries = [entry for exhibit in show_all(results) for entry in exhibit.entries]
    if as_json:
        typer.echo(entries_json(entries))
    else:
        Console().print(terminal_table(entries))
