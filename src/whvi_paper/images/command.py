"""``whvi train``: one network on images, alone or in the processes of torchrun."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whvi.errors import ArgumentError

if TYPE_CHECKING:
    from whvi_paper.images.training import ImageTraining

SAMPLES = 16
"""Functions that are drawn for the metrics."""


def train(
    model: Annotated[str, typer.Argument(help="alexnet, vgg16, resnet18 or simple-cnn.")],
    treatment: Annotated[
        str,
        typer.Option(help="Types of layers, or LINEAR+FILTERS. whvi summary MODEL lists the treatments."),
    ] = "whvi",
    epochs: Annotated[int, typer.Option(help="Passes over the training images.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Images per step, over all processes.")] = 256,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Learning rate; the maximum of one-cycle. Default: depends on the treatment, 0.1 for nng (natural "
            "gradients), 0.003 for others.",
            show_default=False,
        ),
    ] = None,
    schedule: Annotated[str, typer.Option(help="one-cycle or constant.")] = "one-cycle",
    precision: Annotated[
        str, typer.Option(help="full, bf16 (not for nng), or auto: bf16 if the processor supports it.")
    ] = "auto",
    data: Annotated[str, typer.Option(help="Dataset of images; whvi datasets list shows all.")] = "cifar10",
    validation: Annotated[
        bool,
        typer.Option(
            "--validation", help="Evaluate on the last tenth of the training images instead of the test images."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for weights, checkpoint and curve. Default: out/train/MODEL-TREATMENT-epochsN-seedN.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train a convolutional network on images and evaluate it on held-out images.

    It saves a checkpoint after each epoch and at Ctrl-C; the same command resumes.
    Several processes: torchrun --nproc-per-node 2 --no-python whvi train alexnet
    """
    from whvi.inference.distributed import launched, team
    from whvi_paper.cli import stoppable
    from whvi_paper.images.settings import PRECISIONS, SCHEDULES, one_of
    from whvi_paper.images.training import ImageTraining

    one_of("--schedule", schedule, SCHEDULES)
    one_of("--precision", precision, PRECISIONS)
    for name, value in (("--epochs", epochs), ("--batch-size", batch_size)):
        if value < 1:
            raise ArgumentError(f"{name} must be 1 or more, got {value}")
    folder = out or Path("out/train", f"{model}-{treatment}-epochs{epochs}-seed{seed}{'-validation' * validation}")
    settings: dict[str, object] = {"batch_size": batch_size, "schedule": schedule, "precision": precision}
    settings |= {"validation": True} if validation else {}
    settings |= {} if rate is None else {"learning_rate": rate}
    inputs = {"dataset": data, "model": model, "method": treatment, "epochs": epochs, "configuration": settings}
    task = ImageTraining({**inputs, "seed": seed})
    folder.mkdir(parents=True, exist_ok=True)  # what cannot be written is reported now, and not after an epoch
    with stoppable():
        with team(launched()) as group:
            speed = _fit(task, folder, distributed=group.size > 1)
        if group.leads:
            task.save(folder / "weights.safetensors")
            _show(task, speed)
            typer.echo(f"weights: {folder / 'weights.safetensors'}")


def _fit(task: "ImageTraining", folder: Path, distributed: bool) -> float | None:
    """Images in a second of training, without looks at test images; None where all steps were done before."""
    from whvi.io import checkpoint

    before = (checkpoint.steps(folder / "checkpoint") or [0])[-1]
    seconds = task.fit(folder, lambda share: None, progress=None, distributed=distributed).seconds - task.look_seconds
    return (task.steps - before) * task.batch_size / seconds if before < task.steps else None


def _show(task: "ImageTraining", speed: float | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from whvi_paper.images.training import ROWS_AT_ONCE

    found = task.measure(SAMPLES, task.inputs["seed"], rows_at_once=ROWS_AT_ONCE)
    table = Table("error", "MNLL", "ECE", "parameters", "images/s")
    rate = "-" if speed is None else f"{speed:,.0f}"
    table.add_row(*(f"{found[name]:.4f}" for name in ("error", "mnll", "ece")), f"{task.parameters:,}", rate)
    Console().print(table)
