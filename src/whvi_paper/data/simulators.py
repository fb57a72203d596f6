"""Simulators with published formulas, as data: y = f(x) without noise, on points that fill the box of the inputs.

The formulas and their boxes are those of the test functions of S. Surjanovic and D. Bingham's Virtual Library of
Simulation Experiments. A whole dataset is a function of its name and size, by a Latin hypercube of fixed seed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whvi.errors import MissingPackageError
from whvi_paper.data.table import Arrays

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Simulator:
    """A function of rows (N, F), and the box that the rows are drawn from."""

    function: Callable[[Numbers], Numbers]
    box: Mapping[str, tuple[float, float]]
    """Lowest and highest value of each input."""

    def data(self, rows: int, seed: int = 0) -> Arrays:
        """x (rows, F) and y (rows, 1).

        Law: of the ``rows`` equal slices of the range of an input, each holds one point.
        """
        low, high = np.array(list(self.box.values())).T
        x = low + (high - low) * latin_hypercube(rows, len(self.box), seed)
        return x, self.function(x)[:, None]


def latin_hypercube(rows: int, inputs: int, seed: int) -> Numbers:
    """Points that fill the unit cube: (rows, inputs)."""
    try:
        from scipy.stats import qmc  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise MissingPackageError("designs of simulators need scipy: pip install 'whvi[paper]'") from None
    # Not ``rng``, which scipy knows by that name from 1.15 only.
    return np.asarray(qmc.LatinHypercube(inputs, seed=np.random.default_rng(seed)).random(rows))


def borehole(x: Numbers) -> Numbers:
    """Flow of water through a borehole between two aquifers, in cubic metres a year."""
    rw, r, tu, hu, tl, hl, length, kw = x.T
    log = np.log(r / rw)
    return np.asarray(2 * np.pi * tu * (hu - hl) / (log * (1 + 2 * length * tu / (log * rw**2 * kw) + tu / tl)))


HARTMANN_HEIGHT = np.array([1.0, 1.2, 3.0, 3.2])
HARTMANN_WIDTH = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
HARTMANN_CENTRE = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann6(x: Numbers) -> Numbers:
    """Four valleys in six dimensions; the deepest point is -3.32237."""
    distance = (HARTMANN_WIDTH * (x[:, None, :] - HARTMANN_CENTRE) ** 2).sum(-1)
    return np.asarray(-np.exp(-distance) @ HARTMANN_HEIGHT)


def rastrigin(x: Numbers) -> Numbers:
    """A bowl with a ripple; 0 at 0, and more elsewhere."""
    return np.asarray((10 + x**2 - 10 * np.cos(2 * np.pi * x)).sum(-1))


def robot(x: Numbers) -> Numbers:
    """How far the end of an arm of four segments in the plane is from its shoulder; angles, then lengths."""
    angle, length = x[:, :4].cumsum(1), x[:, 4:]
    return np.asarray(np.hypot((length * np.cos(angle)).sum(1), (length * np.sin(angle)).sum(1)))


def otl_circuit(x: Numbers) -> Numbers:
    """Midpoint voltage of a push-pull circuit without an output transformer; resistances in kilo-ohms."""
    rb1, rb2, rf, rc1, rc2, beta = x.T
    vb1 = 12 * rb2 / (rb1 + rb2)
    gain = beta * (rc2 + 9)
    return np.asarray(((vb1 + 0.74) * gain + 11.35 * rf + 0.74 * rf * gain / rc1) / (gain + rf))


SIMULATORS = {
    "borehole": Simulator(
        borehole,
        {
            "rw": (0.05, 0.15),
            "r": (100, 50000),
            "Tu": (63070, 115600),
            "Hu": (990, 1110),
            "Tl": (63.1, 116),
            "Hl": (700, 820),
            "L": (1120, 1680),
            "Kw": (9855, 12045),
        },
    ),
    "hartmann6": Simulator(hartmann6, {f"x{i}": (0, 1) for i in range(1, 7)}),
    "rastrigin5": Simulator(rastrigin, {f"x{i}": (-5.12, 5.12) for i in range(1, 6)}),
    "robot": Simulator(
        robot, {f"theta{i}": (0, 2 * np.pi) for i in range(1, 5)} | {f"L{i}": (0, 1) for i in range(1, 5)}
    ),
    "otlcircuit": Simulator(
        otl_circuit,
        {
            "Rb1": (50, 150),
            "Rb2": (25, 70),
            "Rf": (0.5, 3),
            "Rc1": (1.2, 2.5),
            "Rc2": (0.25, 1.2),
            "beta": (50, 300),
        },
    ),
}
