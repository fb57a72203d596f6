"""Time of the fast transform and of the product with H: against D, and against the size of the batch."""

from collections.abc import Sequence
from pathlib import Path

from whvi_paper import measured
from whvi_paper.bench.contenders import transform
from whvi_paper.bench.plot import COLOURS, LABELS
from whvi_paper.blocks import Figure, Shown, Table
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.store import Record

NAME = "transform-time"
TITLE = "Time of the Walsh-Hadamard transform"
SOURCE = "Figure on the timing of the FWHT, appendix"
BATCH, SIZE = 512, 512
"""The batch while D varies, and D while the batch varies."""
PLANS = {
    "recipe": ([1 << k for k in range(1, 13)], [4**k for k in range(7)], 101),
    "quick": ([4, 16, 64, 256, 1024], [1, 64, 1024], 11),
    "smoke": ([4, 64], [16], 2),
}
"""Sizes, batches, rounds."""
CALLS = {
    "recipe": ([1 << k for k in range(4, 12)], [4**k for k in range(6)], 1000),
    "quick": ([64, 256], [16], 100),
    "smoke": ([4], [2], 3),
}
"""Sizes, batches and repetitions of single calls, whose distribution is shown."""
PAIR = ("whvi", "matmul")
NAMES = {"size": "D", "batch": "batch"}


def jobs(profile: str) -> list[Job]:
    """One process measures all, so that ratios can be trusted."""
    found = []
    for label, plans, key, function in (
        ("transform and product with H", PLANS, "rounds", measure),
        ("distribution of single calls", CALLS, "repetitions", measure_calls),
    ):
        sizes, batches, count = measured.plan(plans, profile)
        settings = dict.fromkeys([(BATCH, size) for size in sizes] + [(batch, SIZE) for batch in batches])
        inputs = tuple({"batch": batch, "size": size, key: count} for batch, size in settings)
        found.append(Job(NAME, label, inputs, function, cost=2.0))
    return found


def measure_calls(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Seconds of single calls of the transform and of the product: the box of so many."""
    results: list[Results] = []
    for one in inputs:
        ways = transform(one["batch"], one["size"])
        found = measured.distributions({name: ways[name] for name in PAIR}, one["repetitions"])
        results.append({"metrics": found["metrics"], "boxes": {k: measured.box(v) for k, v in found["times"].items()}})
        report(len(results) / len(inputs))
    return results


def measure(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Seconds of each way to H x."""
    results: list[Results] = []
    for one in inputs:
        results.append({"metrics": measured.timed(transform(one["batch"], one["size"]), one["rounds"])})
        report(len(results) / len(inputs))
    return results


def show(records: Sequence[Record]) -> Shown:
    """Lines and boxes against D and against the batch, and from which D on the transform is the faster one."""
    return measured.in_two_parts(records, "repetitions", show_rounds, show_calls)


def show_calls(records: Sequence[Record]) -> Shown:
    """Boxes of single calls, against D and against the batch."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(9, 3.6), layout="constrained")
    axes, repetitions = canvas.subplots(1, 2), max(record["inputs"]["repetitions"] for record in records)
    for axis, fixed, value, against in zip(axes, ("batch", "size"), (BATCH, SIZE), ("size", "batch"), strict=True):
        mine = sorted((one for one in records if one["inputs"][fixed] == value), key=lambda one: one["inputs"][against])
        boxes = {
            name: {
                one["inputs"][against]: {k: v * 1e6 for k, v in one["results"]["boxes"][name].items()} for one in mine
            }
            for name in PAIR
        }
        measured.draw_boxes(axis, boxes, LABELS, COLOURS)
        axis.set(xlabel=NAMES[against], ylabel="microseconds", title=f"Single calls, {NAMES[fixed]} {value}")
    axes[0].legend(fontsize=8)
    text = (
        f"Boxes: {repetitions:,} single calls of each, in turn, as the paper repeats its own; a box has the quartiles, "
        f"and its whiskers end at the 5 % and the 95 % quantile. {measured.where(records)}"
    )
    words = "Time of single calls of the transform and of the product, boxes against D and against the batch."
    numbers = measured.entries(NAME, records, lambda one: (f"batch {one['batch']}, single calls", one["size"]))
    drawing = Figure(f"Distribution of {repetitions:,} calls", figure_svg(canvas), alternative=words)
    return Shown(NAME, TITLE, SOURCE, text, [drawing], numbers)


def show_rounds(records: Sequence[Record]) -> Shown:
    """Lines against D and against the batch, and from which D on the transform is the faster one."""
    left = [record for record in records if record["inputs"]["batch"] == BATCH]
    right = [record for record in records if record["inputs"]["size"] == SIZE]
    by_size, by_batch = measured.points(left, "size", "seconds"), measured.points(right, "batch", "seconds")
    faster = break_even(by_size)
    text = (
        f"The transform against torch.matmul with a stored H; float32, one thread, medians of interleaved runs in one "
        f"process. With a batch of {BATCH} the transform is faster from "
        f"{'no D that was measured' if faster is None else f'D = {faster}'} on. The paper's CPU kernel broke even at "
        f"D = 512 to 1024. {measured.where(records)}"
    )
    captions = f"Time against D, batch {BATCH}", f"Time against the batch, D = {SIZE}"
    words = "Time of each way to transform, against D and against the batch; the tables have the numbers."
    drawing = Figure("Time of H x", draw(by_size, by_batch, captions), alternative=words)
    blocks = (drawing, table(by_size, captions[0], "D"), table(by_batch, captions[1], "batch"))
    numbers = measured.entries(NAME, records, lambda one: (f"batch {one['batch']}", one["size"]))
    return Shown(NAME, TITLE, SOURCE, text, blocks, numbers)


def break_even(lines: measured.Points) -> int | None:
    """The smallest D from which on the transform is faster than the product, at all D that were measured.

    >>> break_even({"whvi": [(2, 1.0), (4, 2.0), (8, 3.0)], "matmul": [(2, 2.0), (4, 1.0), (8, 9.0)]})
    8
    """
    products = dict(lines.get("matmul", ()))
    slower = [size for size, seconds in lines.get("whvi", ()) if size in products and seconds >= products[size]]
    return min((size for size in products if size > max(slower, default=0)), default=None)


def table(lines: measured.Points, title: str, head: str) -> Table:
    """Microseconds of both, and their ratio."""
    products = dict(lines.get("matmul", ()))
    rows = [
        measured.cells(str(at), f"{ours * 1e6:.1f}", f"{products[at] * 1e6:.1f}", f"{products[at] / ours:.2f}")
        for at, ours in lines.get("whvi", ())
        if at in products
    ]
    return Table(title, (head, "fwht, µs", "matmul, µs", "matmul / fwht"), rows)


def draw(by_size: measured.Points, by_batch: measured.Points, titles: Sequence[str]) -> str:
    """Two panels with the ways to transform."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(9, 3.6), layout="constrained")
    axes = canvas.subplots(1, 2)
    for axis, lines, title, label in zip(axes, (by_size, by_batch), titles, ("D", "batch"), strict=True):
        measured.draw_lines(axis, {k: [(x, y * 1e6) for x, y in line] for k, line in lines.items()}, LABELS, COLOURS)
        axis.set(title=title, xlabel=label, ylabel="microseconds")
    axes[0].legend(fontsize=8)
    return figure_svg(canvas)
