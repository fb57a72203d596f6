"""What this package adds to the command line: ``whvi reproduce``, ``train``, ``report``, ``bench``, ..."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whvi.cli import CHECK, PAPER
from whvi.errors import ArgumentError, MissingPackageError, WhviError
from whvi_paper.jobs import Job

if TYPE_CHECKING:
    from whvi_paper.store import Store


PACKAGES = ("jinja2", "joblib", "matplotlib", "pooch", "python_calamine", "requests", "scipy", "sklearn")
"""Of the extra."""


def add_commands(app: typer.Typer) -> None:
    """Called by ``whvi`` with its app, through the entry point in the group ``whvi.commands``."""
    own = typer.Typer()
    _add_own(own)
    for group in (own, *(info.typer_instance for info in own.registered_groups)):
        for info in () if group is None else group.registered_commands:
            assert info.callback is not None
            info.callback = explained(info.callback)
    app.registered_commands += own.registered_commands
    app.registered_groups += own.registered_groups


def explained(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command that says what to install where a package of the extra is missing."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except ModuleNotFoundError as error:
            package = (error.name or "").split(".")[0]
            if isinstance(error, MissingPackageError) or package not in PACKAGES:
                raise
            message = f"this command needs {package}, install it with: pip install 'whvi[paper]'"
            raise MissingPackageError(message) from error

    return run


def _add_own(app: typer.Typer) -> None:
    from whvi_paper.data.commands import add_commands as add_datasets
    from whvi_paper.images.command import train
    from whvi_paper.networks.command import summary
    from whvi_paper.report.commands import add_commands as add_report

    app.command(
        "reproduce", rich_help_panel=PAPER, epilog="Example: whvi reproduce uci-regression --profile quick --only yacht"
    )(reproduce)
    app.command("demo", rich_help_panel=CHECK, epilog="Example: whvi demo -o out/demo")(demo)
    app.command("train", rich_help_panel=PAPER, epilog="Example: whvi train alexnet --epochs 30")(train)
    app.command("bench", rich_help_panel=CHECK, epilog="Example: whvi bench --quick -o out/bench")(bench)
    app.command("summary", rich_help_panel=PAPER, epilog="Example: whvi summary alexnet")(summary)
    add_report(app)
    add_datasets(app)


def reproduce(
    exhibit: Annotated[str, typer.Argument(help="Name of a table or figure. Omit it to list all names.")] = "",
    profile: Annotated[
        str, typer.Option(help="recipe (ours, complete), paper (its protocol), quick (minutes) or smoke (seconds).")
    ] = "quick",
    results: Annotated[
        Path | None,
        typer.Option(
            help="Folder of records. Existing records are not computed again. Default: results, which are "
            "published, for --profile recipe and paper; otherwise OUT/records.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the page and for checkpoints.")] = Path(
        "out/paper"
    ),
    processes: Annotated[int | None, typer.Option(help="Parallel jobs. Default: one per core.", min=1)] = None,
    threads: Annotated[
        int, typer.Option(help="Threads per process. Convolutional networks are faster with several.", min=1)
    ] = 1,
    backend: Annotated[str, typer.Option(help="loky (processes of this machine), sequential, ray or dask.")] = "loky",
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only jobs with this word in their label: a method, a dataset, 2x128. Repeat it to combine words."
        ),
    ] = None,
) -> None:
    """Compute a table or figure of the paper: only the runs that are missing, in parallel.

    Ctrl-C loses only some steps of the running jobs; the same command resumes.
    """
    from whvi_paper import recipe
    from whvi_paper.exhibits import EXHIBITS, WITH_PROTOCOL, find, show
    from whvi_paper.report import terminal_tables, write_html
    from whvi_paper.runner import run
    from whvi_paper.store import Store, home
    from whvi_paper.workers import check_backend

    if not exhibit:
        for name, module in EXHIBITS.items():
            typer.echo(f"{name:20} {module.TITLE} ({module.SOURCE})")
        return
    recipe.profile(profile)  # mistakes are reported before data are fetched
    if profile == "paper" and exhibit in EXHIBITS and exhibit not in WITH_PROTOCOL:
        raise ArgumentError(f"{exhibit} has no profile 'paper'; exhibits that have one: {', '.join(WITH_PROTOCOL)}")
    check_backend(backend)
    store = Store(results or home(profile, out))
    jobs = with_data(chosen(find(exhibit).jobs(profile), only or ()), store)
    with stoppable():
        summary = run(jobs, store, work=out / "work", processes=processes, threads=threads, backend=backend)
    shown = show(exhibit, store, profile)
    if shown.entries:
        from rich.console import Console

        Console().print(*terminal_tables(shown.entries))
    typer.echo(f"{exhibit}: {summary}")
    typer.echo(f"page: {write_html([shown], out / f'{exhibit}.html')}")
    if summary.failed:
        files = sorted({str(store.failed_path(job.exhibit)) for job in jobs})
        typer.echo(f"why they failed: {', '.join(files)}", err=True)
        raise typer.Exit(1)


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C ends the command with one line and the exit code that a shell gives it."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; finished work is kept, and the same command resumes", err=True)
        raise typer.Exit(130) from None


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the picture, the page and the records.")] = Path(
        "out/demo"
    ),
) -> None:
    """Fit five Bayesian networks to a toy problem and plot their predictions, in a minute or two."""
    from whvi_paper.demo import run

    with stoppable():
        picture = run(out)
    typer.echo(f"picture: {picture}")


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sizes and repetitions.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the table and the plot.")] = Path("out/bench"),
) -> None:
    """Measure the speed of the transform against memcpy, matmul and others on this machine."""
    from whvi_paper.bench import run

    run(quick, out)


def chosen(jobs: Sequence[Job], words: Sequence[str]) -> list[Job]:
    """The jobs whose label has all the words; a word may be several, as in the method "S_opt H G H"."""
    found = [job for job in jobs if all(f" {word} " in f" {job.label} " for word in words)]
    if not found:
        known = dict.fromkeys(word for job in jobs for word in job.label.split())
        raise ArgumentError(f"no job has all words {' '.join(words)}; words of jobs are: {' '.join(known)}")
    return found


def with_data(jobs: Sequence[Job], store: "Store") -> list[Job]:
    """The jobs that are done, need no data, or whose data are here or could be fetched now; says which are left out.

    ArgumentError if that is all of them.
    """
    from whvi_paper.data import load

    absent = set()
    missing = {id(job): (job.load or load, job.inputs[0].get("dataset")) for job in jobs if store.missing(job)}
    for read, name in dict.fromkeys(missing.values()):
        try:
            if name is not None:
                read(name)
        except WhviError as error:
            absent.add((read, name))
            typer.echo(f"{name} is skipped: {error}", err=True)
    found = [job for job in jobs if missing.get(id(job)) not in absent]
    if jobs and not found:
        raise ArgumentError("no job has data or records; fetch the data, or copy them to WHVI_DATA")
    return found
