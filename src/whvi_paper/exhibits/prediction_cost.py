"""What a prediction of a convolutional network costs: time, memory, and energy where the machine shows it."""

from collections.abc import Mapping, Sequence
from typing import Any

from whvi_paper import measured
from whvi_paper.blocks import Figure, Shown, Table
from whvi_paper.images.prediction import LINEAR, TEST, WHOLE, measure
from whvi_paper.jobs import Job
from whvi_paper.store import Record

NAME = "prediction-cost"
TITLE = "Cost of a prediction of AlexNet"
SOURCE = "Figure on energy, computational efficiency"
PLANS: dict[str, dict[str, Any]] = {
    "recipe": {
        "model": "alexnet", "images": 256, "samples": 16, "memory_rows": 16,
        "rows": {"whvi": 16, "mcd": 16, "nng": 256}, "rounds": {"whvi": 7, "mcd": 7, "nng": 3},
    },
    "quick": {
        "model": "alexnet", "images": 32, "samples": 16, "memory_rows": 16,
        "rows": {"whvi": 16, "mcd": 16}, "rounds": {"whvi": 3, "mcd": 3},
    },
    "smoke": {
        "model": "simple-cnn", "images": 2, "samples": 2, "memory_rows": 2,
        "rows": {"whvi": 2, "mcd": 2}, "rounds": {"whvi": 2, "mcd": 2},
    },
}  # fmt: skip
"""``rows`` are the images of a pass: for each method the fastest of 16, 64 and 256 for the whole network, by one try on
a busy machine that is not stored. In CPU seconds, scaled up to 256 images where there were fewer, WHVI took 7.6, 8.1
and 9.7, MC dropout 9.5, 9.8 and 12, NNG 122, 48 and 33. Memory has one number for all."""
TEST_PLAN = {
    "model": "alexnet", "images": 10_000, "samples": 16, "memory_rows": 16,
    "rows": {"whvi": 16, "mcd": 16}, "rounds": {"whvi": 1, "mcd": 1},
}  # fmt: skip
"""As many images as CIFAR-10 has to test with; a job by itself, as it takes about ten minutes."""
TEXT = (
    "{images} random images, {samples} functions drawn; float32, one thread, networks that are not trained: time "
    "depends on neither. The methods take turns in one process, after a pass to warm up; medians. The test set has "
    "10,000 images, which go through such passes one after the other: time should grow with their number, and ratios "
    "should carry over{whole}. WHVI and MC dropout have the same convolutions, with dropout: they differ in the linear "
    "maps alone, so these are measured by themselves too, on random features. {told} Memory is what parameters and "
    "buffers take, and the most that a pass of {memory_rows} images holds at once besides, by torch's profiler. "
    "{energy}{nng} {where}"
)
NNG = (
    " The matrix Gaussian (NNG) meets the rows of its linear maps factor by factor, without a matrix. It draws its "
    "noise and filters anew in each pass, so it is faster with more images in a pass and has {rows}; turns: {turns}."
)


def jobs(profile: str) -> list[Job]:
    """One process measures the parts, so that ratios can be trusted; the profile "recipe" has the test set besides."""
    plan = measured.plan(PLANS, profile)
    inputs = tuple({"part": part, **plan} for part in (WHOLE, LINEAR))
    found = [Job(NAME, "prediction of convolutional networks", inputs, measure, cost=10.0)]
    if profile == "recipe":
        found.append(Job(NAME, "prediction of the test set", ({"part": TEST, **TEST_PLAN},), measure, cost=10.0))
    return found


def show(records: Sequence[Record]) -> Shown:
    """Time and memory of each method, and the ratios to WHVI."""
    parts = {record["inputs"]["part"]: record for record in records}
    parts = {part: parts[part] for part in (WHOLE, LINEAR, TEST) if part in parts}
    inputs = next(iter(parts.values()))["inputs"]
    text = TEXT.format(
        images=f"{inputs['images']:,}",
        samples=inputs["samples"],
        memory_rows=inputs["memory_rows"],
        whole="; one turn with as many stands beside them" if {WHOLE, TEST} <= parts.keys() else "",
        told=told(parts),
        energy=energy_told(parts),
        nng=NNG.format(rows=inputs["rows"]["nng"], turns=inputs["rounds"]["nng"]) if "nng" in inputs["rows"] else "",
        where=measured.where(records),
    )
    words = "Seconds of each method for the whole network and for its linear maps, and memory; the table has them."
    drawing = Figure("Time and memory of a prediction", draw(parts), alternative=words)
    numbers = measured.entries(NAME, parts.values(), lambda one: (f"{one['part']}, {one['images']} images", 0))
    return Shown(NAME, TITLE, SOURCE, text, (drawing, table(parts)), numbers)


def told(parts: Mapping[str, Record]) -> str:
    """How much longer MC dropout takes than WHVI."""
    words = []
    for part, record in parts.items():
        time, cpu = (record["results"]["metrics"][kind] for kind in ("seconds", "cpu_seconds"))
        ratios = [one["mcd"] / one["whvi"] for one in (time, cpu)]
        words.append(f"{ratios[0]:.2f} for the {part} ({ratios[1]:.2f} in CPU seconds)")
    return (
        f"The time of MC dropout divided by that of WHVI is {', '.join(words)}. The paper calls WHVI 51 % faster for "
        f"the network, on a GPU: a ratio of 1.51, if it speaks of speed."
    )


def energy_told(parts: Mapping[str, Record]) -> str:
    """Joules relative to WHVI, or that there are none; and what the paper says."""
    joules = next(iter(parts.values()))["results"]["metrics"]["joules"]
    if {"whvi", "mcd"} <= joules.keys():
        ratio = joules["mcd"] / joules["whvi"]
        found = f"Energy is that of the whole processor: MC dropout takes {ratio:.2f} times that of WHVI."
    else:
        found = "Energy is not exposed by this machine; CPU seconds stand for it."
    return f"{found} The paper has WHVI up to 33 % more efficient in energy, on a GPU."


def table(parts: Mapping[str, Record]) -> Table:
    """A row for each part and method."""
    rows = []
    for part, record in parts.items():
        inputs, metrics = record["inputs"], record["results"]["metrics"]
        for method, seconds in metrics["seconds"].items():
            size, joules = metrics["bytes"].get(method), metrics["joules"].get(method)
            rows.append(
                measured.cells(
                    f"{part}, {measured.LABELS[method]}",
                    f"{metrics['numbers'][method]:,}",
                    f"{inputs['images']:,}",
                    str(inputs["rows"][method]),
                    f"{seconds:.3g}",
                    f"{seconds / metrics['seconds']['whvi']:.2f}",
                    f"{metrics['cpu_seconds'][method]:.3g}",
                    "–" if size is None else f"{size / 1e6:,.0f}",
                    "not exposed here" if joules is None else f"{joules:.3g}",
                )
            )
    head = (
        "part, method", "parameters", "images", "images in a pass", "seconds", "relative to WHVI", "CPU seconds",
        "memory, MB", "joules",
    )  # fmt: skip
    return Table("A prediction of all images", head, rows)


def draw(parts: Mapping[str, Record]) -> str:
    """Panels with a point for each method, on a logarithmic axis: time of each part, and memory."""
    from matplotlib.figure import Figure as Canvas

    from whvi.page import figure_svg

    found = {part: record["results"]["metrics"] for part, record in parts.items()}
    panels = {f"{part}: seconds": metrics["seconds"] for part, metrics in found.items() if part != TEST}
    if WHOLE in found:
        panels["network: memory, MB"] = {name: size / 1e6 for name, size in found[WHOLE]["bytes"].items()}
    panels = panels or {f"{TEST}: seconds": found[TEST]["seconds"]}
    canvas = Canvas(figsize=(3.3 * len(panels), 2.0), layout="constrained")
    for axis, (title, values) in zip(canvas.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for height, (name, value) in enumerate(reversed(values.items())):
            axis.plot([value], [height], "o", color=measured.COLOURS[name])
            text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
            axis.annotate(text, (value, height), (0, 6), textcoords="offset points", ha="center", fontsize=8)
        axis.set_yticks(range(len(values)), [measured.LABELS[name] for name in reversed(values)])
        axis.set(
            xscale="log", xlim=(min(values.values()) / 2, 2 * max(values.values())), ylim=(-0.5, len(values) - 0.3)
        )
        axis.set_title(title, fontsize=10)
        axis.tick_params(labelsize=8, which="both")
        axis.grid(alpha=0.3)
    return figure_svg(canvas)
