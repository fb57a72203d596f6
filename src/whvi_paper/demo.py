"""What ``whvi demo`` runs: the toy figure in its quick profile, a page to look at, and a short table."""

from io import BytesIO
from pathlib import Path

from rich.console import Console
from rich.table import Table

from whvi.errors import WhviError
from whvi.io import atomic
from whvi.ops import kernel_info
from whvi_paper import exhibits
from whvi_paper.exhibits import toy
from whvi_paper.report import write_html
from whvi_paper.report.compare import label
from whvi_paper.runner import run as run_jobs
from whvi_paper.store import Record, Store

PROCESSES = 2


def run(out: Path, profile: str = "quick", processes: int = PROCESSES) -> Path:
    """Fit five networks to generated data, draw what they predict, print a table; the path of the picture.

    Records stay in ``out``: a second run takes what the first one computed.
    """
    store, jobs = Store(out / "records"), toy.published_jobs(profile)
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.print(f"{len(jobs)} networks 1 - 128 - 128 - 1 on {processes} processes: a minute or so", highlight=False)
    backend = "loky" if processes > 1 else "sequential"
    summary = run_jobs(jobs, store, work=out / "work", processes=processes, backend=backend)
    if summary.failed:
        raise WhviError(f"{summary.failed} of {len(jobs)} fits failed; the reasons are in {store.folder / 'failed'}")
    picture, image = out / "demo.png", BytesIO()
    toy.draw(store.records(jobs)).savefig(image, dpi=120)
    atomic.write_bytes(picture, image.getvalue())
    page = write_html([exhibits.show(toy.NAME, store, profile)], out / "demo.html")
    tell(store.records(jobs), console)
    console.print(f"page to look at or to send, one file: {page}", highlight=False, soft_wrap=True)
    return picture


def tell(records: list[Record], console: Console) -> None:
    """The short table at the end, and what it says in a sentence."""
    near = toy.distances(records)
    table = Table(title="a curve seen at noisy points, with a gap: how near each method comes to SGHMC")
    for head in ("method", "parameters", "distance to SGHMC", "seconds"):
        table.add_column(head, justify="left" if head == "method" else "right")
    for one in records:
        method = one["inputs"]["method"]
        distance = f"{near[method]:.3f}" if method in near else "-"
        count = f"{one['results']['parameters']:,}"
        table.add_row(label(method), count, distance, f"{one['wall_seconds']:.0f}")
    info = kernel_info()
    console.print(table)
    console.print(conclusion(near, {one["inputs"]["method"]: one["results"]["parameters"] for one in records}))
    console.print(f"kernel: {info.backend} {info.isa or ''}; {info.reason}", highlight=False)


def conclusion(near: dict[str, float], parameters: dict[str, int]) -> str:
    """Which method is nearest to samples of the exact posterior, and which needs the fewest parameters.

    >>> print(conclusion({"g-whvi": 0.2, "mfg": 0.1}, {"g-whvi": 1541, "mfg": 33795, "sghmc": 17000}))
    SGHMC samples the exact posterior. Nearest to it: MFG (0.100).
    Smallest: G-WHVI (0.200), with 1,541 parameters where MFG has 33,795.
    """
    if not near:
        return "SGHMC samples the exact posterior; no other method was run."
    nearest, smallest = min(near, key=near.__getitem__), min(near, key=parameters.__getitem__)
    largest = max(near, key=parameters.__getitem__)
    size, rest = f"{parameters[smallest]:,} parameters", f"{label(largest)} has {parameters[largest]:,}"
    return (
        f"SGHMC samples the exact posterior. Nearest to it: {label(nearest)} ({near[nearest]:.3f}).\n"
        f"Smallest: {label(smallest)} ({near[smallest]:.3f}), with {size} where {rest}."
    )
