"""The command line: ``whvi doctor``, and commands of other packages.

A package adds commands with an entry point in the group ``whvi.commands``: a function that is called with the app.

Needs the extra ``cli`` (typer and rich), which are imported when a command runs, so that ``main`` can say what to
install. Packages report what their commands need by a ``MissingPackageError``. Exit codes: 0 success, 1 the
command ran and found a problem, 2 an error in the call or in the installation.
"""

import dataclasses
import platform
import sys
import unicodedata
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from typer import Typer
    from typer.models import CommandInfo

HEADINGS = TABLES, CHECK, PAPER = "Tables", "This installation", "The paper's experiments"
"""Of ``whvi --help``, in their order; commands of other packages come last."""
FALLBACK_NOTE = """\
The native kernel does NOT run; the pure-torch fallback does: the same mathematics, slower.
Reason: {reason}
{advice}"""


def main() -> None:
    """Entry point of the ``whvi`` command."""
    try:
        app = build_app()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        fail("the command line needs its extra, install it with: pip install 'whvi[cli]'")
    from whvi.errors import WhviError

    try:
        app()
    except (WhviError, OSError) as error:  # a mistake of the caller, not of the program: no traceback
        fail(str(error))


def fail(message: str) -> NoReturn:
    """Print the error in one line and exit with code 2."""
    print("whvi:", "\n".join(map(printable, message.split("\n"))), file=sys.stderr)
    raise SystemExit(2)


def printable(text: str) -> str:
    """A text of unknown origin for a terminal: what controls one, or is not seen, stands there by its number.

    >>> printable("\x1b]0;owned\x07 price, \u20ac")
    '\\\\x1b]0;owned\\\\x07 price, €'
    """
    hidden = {char for char in text if unicodedata.category(char)[0] == "C"}
    return "".join(char.encode("unicode_escape").decode() if char in hidden else char for char in text)


def build_app() -> "Typer":
    """All commands; each one only parses its arguments and calls the function that does the work."""
    import rich  # noqa: F401  (a command without it would fail half-way)
    import typer

    app = typer.Typer(
        help="Bayesian neural networks that report how certain their predictions are.\n\n"
        "Start with a table: whvi fit TABLE.csv --target COLUMN. Every command has --help with an example.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )

    app.callback()(lambda: None)  # with one command only, typer would otherwise drop its name

    @app.command(epilog="Example: whvi doctor", rich_help_panel=CHECK)
    def doctor() -> None:
        """Check the installation: kernel, threads, versions. Exit code 1 if the native kernel is missing."""
        raise typer.Exit(run_doctor())

    add_commands(app)
    app.registered_commands.sort(key=_place)
    return app


def _place(info: "CommandInfo") -> int:
    """Of a command in the help: by its heading."""
    return HEADINGS.index(info.rich_help_panel) if info.rich_help_panel in HEADINGS else len(HEADINGS)


def add_commands(app: "Typer") -> None:
    """Add commands of installed packages, such as whvi_tables; one that fails to load does not affect the others."""
    for entry in sorted(entry_points(group="whvi.commands"), key=lambda entry: entry.name):
        try:
            entry.load()(app)
        except Exception as error:
            print(f"whvi: the commands of {entry.value} are left out: {error}", file=sys.stderr)


def run_doctor() -> int:
    """Print the state of the installation; the exit code is 0 for the native kernel and 1 for the fallback."""
    from rich.console import Console
    from rich.table import Table

    import whvi
    from whvi.ops.native import BUILD_ADVICE

    info = whvi.kernel_info()
    facts = {
        "whvi": whvi.__version__,
        **dataclasses.asdict(info),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    table = Table(title="whvi doctor", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, "-" if value is None else str(value))
    console = Console()
    console.print(table)
    if info.backend == "native":
        return 0
    note = FALLBACK_NOTE.format(reason=info.reason, advice=BUILD_ADVICE)
    console.print(note, style="bold red", markup=False, highlight=False, soft_wrap=True)
    return 1


if __name__ == "__main__":
    main()
