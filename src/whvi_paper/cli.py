"""What this package adds to the command line: ``whvi reproduce``."""

from pathlib import Path
from typing import Annotated

import typer

from whvi_paper.exhibits import EXHIBITS, reproduce


def add_commands(app: typer.Typer) -> None:
    """Called by ``whvi`` with its app, through the entry point in the group ``whvi.commands``."""

    @app.command("reproduce", epilog="Example: whvi reproduce covariance --out out/paper")
    def command(
        exhibit: Annotated[str, typer.Argument(help=f"One of: {', '.join(EXHIBITS)}.")],
        out: Annotated[Path, typer.Option(help="Folder for what is made.")] = Path("out/paper"),
    ) -> None:
        """Make a table or figure of the paper again."""
        typer.echo(f"{exhibit}: {reproduce(exhibit, out)}")
