"""Figure 1: the normalised covariance of g and of vec(W), and what the matrix normal with its U and V would have."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whvi.nn import WHVILinear
from whvi_paper import recipe
from whvi_paper.blocks import Figure, Shown
from whvi_paper.jobs import Inputs, Job, Report, Results
from whvi_paper.store import Record

NAME = "covariance"
TITLE = "Covariance of g and of vec(W)"
SOURCE = "Figure 1"
TEXT = (
    "A layer with D = {size} and a posterior of g that is diagonal, and one that is not; scales and parameters "
    "are random. The exact covariance of vec(W) is dense although that of g is diagonal. The matrix normal "
    "distribution with the same row and column covariance, which the paper names, is a different distribution."
)
INPUTS = {"size": 8, "seed": 0, "posteriors": ["diagonal", "full"], "spread": 0.4}
"""``spread`` is that of the log standard deviations of g, and of the elements of its root below the diagonal."""

KINDS = ("g", "weight", "matrix_normal")


def jobs(profile: str) -> list[Job]:
    """One record; it takes no time, so all profiles have the same."""
    recipe.profile(profile)  # which refuses an unknown one
    return [Job(NAME, "correlations", (INPUTS,), compute, cost=0.01)]


def compute(inputs: Sequence[Inputs], folder: Path, report: Report) -> list[Results]:
    """Correlation matrices, to four digits: by posterior, of g, of vec(W), and of the matrix normal distribution."""
    return [{"metrics": {posterior: rounded(one, posterior) for posterior in one["posteriors"]}} for one in inputs]


def rounded(inputs: Inputs, posterior: str) -> dict[str, list[list[float]]]:
    """The matrices as lists."""
    matrices = correlations(make_layer(inputs, posterior))
    return {name: [[round(value, 4) for value in row] for row in m.tolist()] for name, m in matrices.items()}


@torch.no_grad()
def correlations(layer: WHVILinear) -> dict[str, Tensor]:
    """Of g, (D, D); of vec(W), (D^2, D^2); and of the matrix normal distribution with its row and column covariance."""
    law = layer.weight_distribution()
    covariances = law.g_root @ law.g_root.T, law.covariance, law.matrix_normal_covariance
    return dict(zip(KINDS, map(normalised, covariances), strict=True))


def make_layer(inputs: Inputs, posterior: str) -> WHVILinear:
    """A square layer W = S1 H diag(g) H S2; its scales and its covariance of g are random."""
    layer = WHVILinear(inputs["size"], inputs["size"], bias=False, posterior=posterior, dtype=torch.float64)
    generator = torch.Generator().manual_seed(inputs["seed"])
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            spread = inputs["spread"] if name.startswith("g.") else 1.0
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    return layer


def normalised(covariance: Tensor) -> Tensor:
    """The correlations: C_ij / sqrt(C_ii C_jj)."""
    std = covariance.diagonal().sqrt()
    return covariance / torch.outer(std, std)


def show(records: Sequence[Record]) -> Shown:
    """A row of pictures for each posterior."""
    size, metrics = records[0]["inputs"]["size"], records[0]["results"]["metrics"]
    words = "Correlation matrices: blocks of g, dense and periodic ones of vec(W), and those of a matrix normal."
    drawing = Figure("Normalised covariance for W = S₁ H diag(g) H S₂", draw(size, metrics), alternative=words)
    return Shown(NAME, TITLE, SOURCE, TEXT.format(size=size), (drawing,))


def draw(size: int, metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """A row of pictures for each posterior, and one colour bar for all."""
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from whvi.page import figure_svg

    canvas = Canvas(figsize=(11, 3.5 * len(metrics)), layout=ConstrainedLayoutEngine(wspace=0.06, hspace=0.04))
    axes = canvas.subplots(len(metrics), 3, squeeze=False)
    labels = (f"{size} elements of g", f"{size**2} entries of W, column after column", "")
    for row, (posterior, matrices) in zip(axes, metrics.items(), strict=True):
        titles = f"g ({posterior} Gaussian)", "vec(W), exact", "if W were matrix normal with its U and V"
        for axis, name, title, label in zip(row, KINDS, titles, labels, strict=True):
            matrix = matrices[name]
            image = axis.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
            axis.set_title(title, fontsize=10)
            axis.set_ylabel(label, fontsize=8, color="0.3")
            axis.set(xticks=[], yticks=[])
            for edge in range(size, len(matrix), size):  # where a column of W ends
                axis.axhline(edge - 0.5, color="0.6", linewidth=0.4)
                axis.axvline(edge - 0.5, color="0.6", linewidth=0.4)
    canvas.colorbar(image, ax=axes, shrink=0.5, aspect=25, ticks=[-1, -0.5, 0, 0.5, 1], label="correlation")
    return figure_svg(canvas)
