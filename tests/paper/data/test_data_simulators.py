"""Simulators at published and hand-computed values."""

import math

import numpy as np
import pytest

from whvi_paper.data import DATASETS, load
from whvi_paper.data.simulators import SIMULATORS

HARTMANN_MINIMUM = (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)


def value(name: str, *inputs: float) -> float:
    return float(SIMULATORS[name].function(np.array([inputs]))[0])


def test_hartmann_has_its_published_minimum() -> None:
    assert value("hartmann6", *HARTMANN_MINIMUM) == pytest.approx(-3.32237, abs=5e-6)
    steps = 1e-3 * np.vstack([np.eye(6), -np.eye(6)])
    around = SIMULATORS["hartmann6"].function(np.array(HARTMANN_MINIMUM) + steps)
    assert (around > -3.32237).all()


def test_rastrigin_at_known_points() -> None:
    assert value("rastrigin5", 0, 0, 0, 0, 0) == 0
    assert value("rastrigin5", 0.5, 0, 0, 0, 0) == pytest.approx(20.25)
    assert value("rastrigin5", 1, 2, 3, 4, 5) == pytest.approx(55)


def test_robot_at_known_points() -> None:
    assert value("robot", 0.7, 0, 0, 0, 0.1, 0.2, 0.3, 0.4) == pytest.approx(1)  # a straight arm
    assert value("robot", 0, math.pi / 2, 0, 0, 0.3, 0.4, 0, 0) == pytest.approx(0.5)  # 3, 4, 5
    assert value("robot", 1, math.pi / 2, math.pi / 2, math.pi / 2, 1, 1, 1, 1) == pytest.approx(0)  # a square


def test_borehole_by_hand() -> None:
    # With r = e rw the logarithm is 1: 2 pi Tu (Hu - Hl) / (1 + 2 L Tu / (rw^2 Kw) + Tu / Tl)
    # = 2 pi 100000 300 / (1 + 2 1200 100000 / (0.01 10000) + 1000) = 2 pi 3e7 / (1 + 2400000 + 1000)
    inputs = (0.1, 0.1 * math.e, 100_000, 1050, 100, 750, 1200, 10_000)
    assert value("borehole", *inputs) == pytest.approx(2 * math.pi * 3e7 / 2_401_001)


def test_otl_circuit_by_hand() -> None:
    # Vb1 = 12 50 / 150 = 4, beta (Rc2 + 9) = 1000, Rf = 2: (4.74 1000 + 11.35 2 + 0.74 2 1000 / 2) / 1002
    assert value("otlcircuit", 100, 50, 2, 2, 1, 100) == pytest.approx((4740 + 22.7 + 740) / 1002)


@pytest.mark.parametrize("name", SIMULATORS)
def test_each_slice_of_a_range_holds_one_point(name: str) -> None:
    simulator = SIMULATORS[name]
    x, y = simulator.data(500)
    for column, (low, high) in zip(x.T, simulator.box.values(), strict=True):
        assert sorted(np.floor((column - low) / (high - low) * 500)) == list(range(500))
    assert y.shape == (500, 1)
    assert len({*y[:, 0]}) == 500
    again = simulator.data(500)
    assert (again[0] == x).all()
    assert (simulator.data(500, seed=1)[0] != x).any()


def test_a_simulator_is_loaded_like_data() -> None:
    data = load("rastrigin5")
    assert (data.x.shape, data.y.shape, data.target_names) == ((10_000, 5), (10_000, 1), ("y",))
    assert data.sha256 == load("rastrigin5").sha256
    assert [DATASETS[name].rows for name in SIMULATORS] == [200_000, 30_000, 10_000, 150_000, 20_000]
