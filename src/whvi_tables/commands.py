"""``whvi fit`` and ``whvi predict``: they parse arguments, call functions, and report results."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whvi.cli import TABLES, printable
from whvi.errors import ArgumentError, MissingPackageError

if TYPE_CHECKING:
    from rich.console import Console

    from whvi_tables.fitting import Fitted

PACKAGES = ("jinja2", "matplotlib", "pandas", "pyarrow", "sklearn")
BAD_NEWS = 1
"""Exit code of a command that ran and found a problem."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


def add_commands(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.command("fit", rich_help_panel=TABLES, epilog="Example: whvi fit houses.csv --target price -o houses")(fit)
    app.command(
        "predict", rich_help_panel=TABLES, epilog="Example: whvi predict houses new.csv -o predictions.csv --level 0.95"
    )(predict)


def fit(
    data: Annotated[Path, typer.Argument(help="A table: .csv, .tsv, also with .gz, or .parquet.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    task: Annotated[str | None, typer.Option(help="auto, regression or classification. Default: auto.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the model and its report. Default: model.")
    ] = None,
    test_share: Annotated[
        float | None, typer.Option(help="Fraction of rows held out to evaluate the model. Default: 0.2.")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to ignore. Repeat it for several columns.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with settings. Options override it.")] = None,
    steps: Annotated[int | None, typer.Option(help="Training steps. Default: depends on the number of rows.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Units of each hidden layer. Default: 128,128.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. Default: 0.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing model in --out.")] = False,
) -> None:
    """Fit a model that predicts a column of a table, with calibrated uncertainty.

    Reports how each column is encoded, and holds out rows to evaluate the model.
    Writes a folder with the model and report.html.
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

        say = partial(tell, console)
        fitted = fit_table(read_table(data), settings, say, progress=Console(stderr=True).is_terminal)
        write_report = folder.save(fitted, settings.out, force)
        _show_metrics(console, fitted)
        say(f"Model:   {settings.out}  (trained on the training rows only)")
        try:
            write_report(report.page(fitted, settings, data.name))
        except Exception as error:  # of whatever kind: what took long is saved
            say(f"Report:  none; it could not be written ({type(error).__name__}: {error}), but the model is complete")
            raise typer.Exit(BAD_NEWS) from error
        say(f"Report:  {settings.out / folder.REPORT}")
        end = "".join(data.suffixes[-2:] if data.suffix == ".gz" else data.suffixes[-1:])
        say(f"Predict: whvi predict {settings.out} NEW{end} -o predictions{end}")


def predict(
    model: Annotated[Path, typer.Argument(help="A folder that whvi fit wrote.")],
    data: Annotated[Path, typer.Argument(help="New rows: .csv, .tsv or .parquet. The target column is optional.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the predictions: .csv, .tsv or .parquet.")],
    level: Annotated[float, typer.Option(help="Probability of the intervals, between 0 and 1.")] = 0.9,
    samples: Annotated[int | None, typer.Option(help="Number of draws to average. Default: as fitted.", min=1)] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Also write the columns of DATA, before the predictions.")
    ] = False,
    escape_formulas: Annotated[
        bool, typer.Option("--escape-formulas", help="Write ' before texts that a spreadsheet would evaluate.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Predict new rows with a fitted model: mean and interval, or class and probabilities.

    One line for each row, in the same order. Regression: mean, std and interval.
    Classification: class, the probability of each class, and the entropy.
    """
    with friendly():
        from rich.console import Console

        from whvi_tables import folder
        from whvi_tables.files import kind_of
        from whvi_tables.predicting import beside, predict_table
        from whvi_tables.reading import read_table
        from whvi_tables.writing import check_writable, without_formulas, write_table

        kind_of(out)
        check_writable(out)
        if out.exists() and (not force or out.is_dir()):
            raise ArgumentError(f"{out} exists; choose another --out{'' if out.is_dir() else ', or --force'}")
        if not 0 < level < 1:
            raise ArgumentError(f"--level must be between 0 and 1, got {level:g}")
        fitted = folder.load(model)
        if samples is not None:
            fitted.estimator.set_params(samples=samples)
        table = read_table(data)
        matrix = fitted.columns.matrix(fitted.columns.as_learned(table))
        found = predict_table(fitted, matrix.values, level)
        written = beside(table.frame, found) if keep else found
        write_table(without_formulas(written) if escape_formulas else written, out)
        console = Console()
        for note in table.notes:
            tell(console, f"The file: {note}.")
        for name, note in matrix.notes.items():
            tell(console, f"{name}: {note}")
        tell(console, f"{len(found):,} rows: {out}")


def tell(console: "Console", text: str) -> None:
    """Print a sentence verbatim, whatever names a table has."""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def friendly() -> Iterator[None]:
    """Report Ctrl-C and missing packages in one line each; ``whvi.cli.main`` reports other errors."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("whvi: interrupted; no file is partly written", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if isinstance(error, MissingPackageError) or package not in PACKAGES:
            raise
        raise MissingPackageError(f"tables need {package}, install it with: pip install 'whvi[tables]'") from error


def _show_metrics(console: "Console", fitted: "Fitted") -> None:
    from rich.table import Table
    from rich.text import Text

    title = printable(f"{fitted.model.target}, {len(fitted.judgement.rows):,} held-out rows")
    table = Table(title=Text(title, style="table.title"), box=None, pad_edge=False, title_justify="left")
    table.add_column("")
    table.add_column("model", justify="right", style="bold")
    table.add_column("baseline", justify="right")
    for metric in fitted.judgement.metrics:
        table.add_row(metric.name, metric.shown(metric.value), metric.shown(metric.baseline))
    console.print(table)
