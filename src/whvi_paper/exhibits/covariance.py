"""Figure 1: the normalised covariance of g and of vec(W), and what the matrix normal with its U and V would have."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from whvi.nn import WHVILinear

SIZE = 8
"""D: W has D^2 = 64 entries."""
SEED = 0
POSTERIORS = ("diagonal", "full")
SPREAD = 0.4
"""Of the log standard deviations of g, and of the elements of its root below the diagonal."""


class Correlations(NamedTuple):
    """Correlation matrices under one posterior."""

    g: Tensor
    """(D, D)."""
    weight: Tensor
    """Of vec(W), exactly: (D^2, D^2)."""
    matrix_normal: Tensor
    """Of the matrix normal law with the row and column covariance of W: (D^2, D^2)."""


def run(out: Path) -> Path:
    """Draw the figure into the folder ``out``; the path of the picture."""
    return draw({posterior: correlations(posterior) for posterior in POSTERIORS}, out / "covariance.png")


@torch.no_grad()
def correlations(posterior: str) -> Correlations:
    """Under a posterior with random parameters, as training might leave them."""
    law = make_layer(posterior).weight_distribution()
    return Correlations(*map(normalised, (law.g_root @ law.g_root.T, law.covariance, law.matrix_normal_covariance)))


def make_layer(posterior: str) -> WHVILinear:
    """A square layer W = S1 H diag(g) H S2; its scales and its covariance of g are random."""
    layer = WHVILinear(SIZE, SIZE, bias=False, posterior=posterior, dtype=torch.float64)
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            spread = SPREAD if name.startswith("g.") else 1.0
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * spread)
    return layer


def normalised(covariance: Tensor) -> Tensor:
    """The correlations: C_ij / sqrt(C_ii C_jj)."""
    std = covariance.diagonal().sqrt()
    return covariance / torch.outer(std, std)


def draw(figures: dict[str, Correlations], path: Path) -> Path:
    """A row of pictures for each posterior, and one colour bar for all."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(11, 3.5 * len(figures)), layout=ConstrainedLayoutEngine(wspace=0.06, hspace=0.04))
    figure.suptitle(f"Normalised covariance for W = S₁ H diag(g) H S₂, D = {SIZE}")
    axes = figure.subplots(len(figures), 3, squeeze=False)
    labels = (f"{SIZE} elements of g", f"{SIZE**2} entries of W, column after column", "")
    for row, (posterior, matrices) in zip(axes, figures.items(), strict=True):
        titles = f"g ({posterior} Gaussian)", "vec(W), exact", "if W were matrix normal with its U and V"
        for axis, matrix, title, label in zip(row, matrices, titles, labels, strict=True):
            image = axis.imshow(matrix.numpy(), cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
            axis.set_title(title, fontsize=10)
            axis.set_ylabel(label, fontsize=8, color="0.3")
            axis.set(xticks=[], yticks=[])
            for edge in range(SIZE, len(matrix), SIZE):  # where a column of W ends
                axis.axhline(edge - 0.5, color="0.6", linewidth=0.4)
                axis.axvline(edge - 0.5, color="0.6", linewidth=0.4)
    figure.colorbar(image, ax=axes, shrink=0.5, aspect=25, ticks=[-1, -0.5, 0, 0.5, 1], label="correlation")
    figure.savefig(path, dpi=160)
    return path
