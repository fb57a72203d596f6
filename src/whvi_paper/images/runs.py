"""Records of convolutional networks, as several exhibits show them: by network and method, and beside the paper's."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from math import nan

from whvi_paper import grid, printed
from whvi_paper.blocks import Cell, Entry
from whvi_paper.images.settings import cycles
from whvi_paper.measured import COLOURS as OTHER_COLOURS
from whvi_paper.report.compare import label
from whvi_paper.store import Record

NETWORKS = {"vgg16": "VGG16", "alexnet": "AlexNet", "resnet18": "ResNet-18", "simple-cnn": "simple CNN"}
"""As they are shown, in the paper's order."""
METHODS = ("whvi", "nf-whvi", "mcd", "mfg", "nng")
"""In the order in which they are shown."""
COLOURS = OTHER_COLOURS | {"nf-whvi": "C5"}
PRINTED_DATASET = "cifar10"
"""What the paper's numbers are about."""
PAPER = (
    "The paper has a constant rate in a setup that it calls similar to that of its other networks: about 50,500 steps, "
    "which are 259 epochs, and predictions from 64 functions."
)
NORMALISATION = (
    "Its tables list convolutions, poolings and linear layers, but no normalisation. Here VGG16 and ResNet-18 "
    "have batch normalisation, as usual. That of AlexNet has no parameters, so the network has as many as the "
    "paper says."
)

Runs = dict[str, dict[str, Record]]
"""Network -> method -> record, both in the order in which they are shown."""


def by_network(records: Iterable[Record]) -> Runs:
    """The records in their places; networks without any are left out."""
    found: Runs = {model: {} for model in NETWORKS}
    for record in sorted(records, key=lambda record: METHODS.index(record["inputs"]["method"])):
        found[record["inputs"]["model"]][record["inputs"]["method"]] = {**record, "cpu_seconds": cpu_seconds(record)}
    return {model: done for model, done in found.items() if done}


def cpu_seconds(record: Record) -> float:
    """Of training, where the record knows it: weights that were kept are measured again in less. Else of all its work.

    >>> cpu_seconds({"cpu_seconds": 10.0, "results": {"training_cpu_seconds": 3600.0}})
    3600.0
    """
    return float(record["results"].get("training_cpu_seconds", record["cpu_seconds"]))


def rows(runs: Runs) -> list[tuple[str, Record]]:
    """The name of each row of a table, and its record.

    >>> rows({"vgg16": {"nf-whvi": {"name": "abc"}}})
    [('VGG16, NF-WHVI', {'name': 'abc'})]
    """
    return [(row_name(model, method), record) for model, done in runs.items() for method, record in done.items()]


def row_name(model: str, method: str) -> str:
    """Network and method, as they are shown."""
    return f"{NETWORKS[model]}, {label(method)}"


def entries(exhibit: str, runs: Runs, metrics: Sequence[str]) -> list[Entry]:
    """Our numbers beside the paper's; of a network that was run, the paper's for methods that were not come too."""
    found = []
    for model, done in runs.items():
        dataset = next(iter(done.values()))["inputs"]["dataset"]
        for method in METHODS:
            for metric in metrics:
                paper = printed.convnet(method, model, metric) if dataset == PRINTED_DATASET else None
                if method in done or paper is not None:
                    place = Entry(exhibit, method, dataset, model, 0, 0, metric, nan, nan, 0, paper)
                    place = replace(place, paper_decimals=printed.CONVNET_DECIMALS)
                    found.append(grid.filled(place, [done[method]] if method in done else []))
    return found


def printed_cells(metrics: Iterable[str]) -> frozenset[Cell]:
    """Of what the paper prints numbers.

    >>> len(printed_cells(["error", "mnll"]))
    21
    """
    return frozenset(
        Cell(method, PRINTED_DATASET, model, 0, 0, metric)
        for model, method, metric in product(NETWORKS, METHODS, metrics)
        if printed.convnet(method, model, metric) is not None
    )


def told(runs: Runs) -> str:
    """What was run, from the records."""
    records = [record for done in runs.values() for record in done.values()]
    inputs = [record["inputs"] for record in records]
    epochs = (f"{NETWORKS[model]} {alternatives(map(epochs_of, runs[model].values()))}" for model in runs)
    return (
        f"WHVI is in the linear maps, with MC dropout in the filters, as in the paper; other methods are in both. "
        f"Epochs: {', '.join(epochs)}. All methods of a network have as many, the same moved and mirrored images in "
        f"batches of {alternatives(one['configuration']['batch_size'] for one in inputs)}, and the same schedule "
        f"({alternatives(one['configuration']['schedule'] for one in inputs)}). The highest rate is "
        f"{alternatives(map(_rate, records))}. {_precisions(runs)} "
        f"A prediction is the mean of {alternatives(one['samples'] for one in inputs)} functions. "
        f"One run each: neither the paper nor this has a spread.\n\n{PAPER} {NORMALISATION}"
    )


def epochs_of(record: Record) -> str:
    """Epochs of each cycle, and the pixels of their images where these were shrunk.

    >>> epochs_of({"inputs": {"epochs": 6}}), epochs_of({"inputs": {"epochs": [8, 3], "sides": [16, 32]}})
    ('6', '8 (16 x 16 pixels) + 3 (32 x 32 pixels)')
    """
    inputs = record["inputs"]
    epochs = cycles(inputs["epochs"])
    pixels = [f" ({side} x {side} pixels)" for side in inputs["sides"]] if "sides" in inputs else [""] * len(epochs)
    return " + ".join(f"{number}{size}" for number, size in zip(epochs, pixels, strict=True))


def _rate(record: Record) -> str:
    configuration = record["inputs"]["configuration"]
    steps = "natural gradients" if record["inputs"]["method"] == "nng" else "Adam"
    return f"{configuration['learning_rate']:g} of {steps}"


def _precisions(runs: Runs) -> str:
    """Which runs were in which precision, as processors differ: CPU times compare only within one."""
    names: dict[str, list[str]] = {}
    for model, done in runs.items():
        for method, record in done.items():
            names.setdefault(record["results"]["precision"], []).append(f"{NETWORKS[model]} with {label(method)}")
    if len(names) == 1:
        return f"All are in {next(iter(names))} precision."
    told = "; ".join(f"in {precision} precision {', '.join(found)}" for precision, found in names.items())
    return f"Not every processor has bf16: {told}. CPU times compare within one precision only."


def alternatives(values: Iterable[object]) -> str:
    """The different ones.

    >>> alternatives([4, 6, 4])
    '4 or 6'
    """
    return " or ".join(dict.fromkeys(map(str, values)))
