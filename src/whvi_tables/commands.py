"""``whvi fit`` and ``whvi predict``: they parse, call the functions that do the work, and say what happened."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whvi.errors import ArgumentError, MissingPackageError

if TYPE_CHECKING:
    from whvi_tables.fitting import Fitted

PACKAGES = ("jinja2", "matplotlib", "pandas", "pyarrow", "sklearn")
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as shells have it."""


def add_commands(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.command("fit", epilog="Example: whvi fit houses.csv --target price --out houses")(fit)
    app.command("predict", epilog="Example: whvi predict houses new.csv -o predictions.csv --level 0.95")(predict)


def fit(
    data: Annotated[Path, typer.Argument(help="A table: .csv, .tsv or .parquet.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    task: Annotated[str | None, typer.Option(help="auto, regression or classification. Default: auto.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the model and its report. Default: model.")] = None,
    test_share: Annotated[float | None, typer.Option(help="Share of rows that judge the model. Default: 0.2.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be given again.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings in TOML; options given here win.")] = None,
    steps: Annotated[int | None, typer.Option(help="Of training. Default: a number that suits the rows.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Units of each hidden layer. Default: 128,128.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same model. Default: 0.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the model in --out.")] = False,
) -> None:
    """Learn to predict a column of a table, with calibrated uncertainty.

    Says what it made of each column, holds some rows out to judge the model, and writes a folder with the model
    and report.html.
    """
    options = {"target": target, "task": task, "out": out, "test_share": test_share, "drop": drop or None,
               "steps": steps, "hidden": hidden, "seed": seed}  # fmt: skip
    with friendly():
        from rich.console import Console

        from whvi_tables import folder, report
        from whvi_tables.fitting import fit_table
        from whvi_tables.reading import read_table
        from whvi_tables.settings import settle

        settings = settle(options, config)
        folder.check_free(settings.out, force)
        console = Console()

        def say(text: str) -> None:
            console.print(text, markup=False, highlight=False, soft_wrap=True)

        fitted = fit_table(read_table(data), settings, say, progress=Console(stderr=True).is_terminal)
        folder.save(fitted, report.page(fitted, settings, data.name), settings.out, force)
        _show_metrics(console, fitted)
        say(f"Model:   {settings.out}  (learned from the training rows only)")
        say(f"Report:  {settings.out / folder.REPORT}")
        say(f"Predict: whvi predict {settings.out} NEW{data.suffix} -o predictions{data.suffix}")


def predict(
    model: Annotated[Path, typer.Argument(help="A folder that whvi fit wrote.")],
    data: Annotated[Path, typer.Argument(help="New rows: .csv, .tsv or .parquet. The target need not be there.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the predictions: .csv, .tsv or .parquet.")],
    level: Annotated[float, typer.Option(help="Probability of the intervals, between 0 and 1.")] = 0.9,
    samples: Annotated[int | None, typer.Option(help="Functions to average. Default: as fitted.", min=1)] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Write the columns of DATA, too, before the predictions.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that is there.")] = False,
) -> None:
    """Predict new rows of a table: one line for each, in the same order.

    A regression gives mean, std and the ends of an interval; a classification the class, the probability of each, and
    the entropy.
    """
    with friendly():
        from rich.console import Console

        from whvi_tables import folder
        from whvi_tables.predicting import beside, predict_table
        from whvi_tables.reading import check_kind, check_writable, read_table, write_table

        check_kind(out)
        check_writable(out)
        if out.exists() and (not force or out.is_dir()):
            raise ArgumentError(f"{out} exists; choose another --out{'' if out.is_dir() else ', or --force'}")
        if not 0 < level < 1:
            raise ArgumentError(f"--level must be between 0 and 1, got {level:g}")
        fitted = folder.load(model)
        if samples is not None:
            fitted.estimator.set_params(samples=samples)
        rows = read_table(data)
        matrix = fitted.columns.matrix(rows)
        found = predict_table(fitted, matrix.values, level)
        write_table(beside(rows, found) if keep else found, out)
        console = Console()
        for name, note in matrix.notes.items():
            console.print(f"{name}: {note}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"{len(found):,} rows: {out}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def friendly() -> Iterator[None]:
    """Ctrl-C and packages that are not there in one line each; other mistakes are told by ``whvi.cli.main``."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("whvi: interrupted; nothing is half-written", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if isinstance(error, MissingPackageError) or package not in PACKAGES:
            raise
        raise MissingPackageError(f"tables need {package}, install it with: pip install 'whvi[tables]'") from error


def _show_metrics(console: object, fitted: "Fitted") -> None:
    from rich.console import Console
    from rich.table import Table

    assert isinstance(console, Console)
    count = len(fitted.judgement.rows)
    table = Table(
        title=f"{fitted.model.target}, {count:,} held-out rows", box=None, pad_edge=False, title_justify="left"
    )
    table.add_column("")
    table.add_column("model", justify="right", style="bold")
    table.add_column("baseline", justify="right")
    for metric in fitted.judgement.metrics:
        table.add_row(metric.name, metric.shown(metric.value), metric.shown(metric.baseline))
    console.print(table)
