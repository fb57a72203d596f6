"""The toy figure: its data, its networks, the distance it reports, and what it shows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from whvi.errors import ArgumentError
from whvi_paper import toy
from whvi_paper.blocks import Figure, Table
from whvi_paper.exhibits import toy as exhibit
from whvi_paper.store import Record, Store

COUNTS = {"g-whvi": 1541, "nf-whvi": 4141, "mfg": 33795, "mcd": 16898, "sghmc": 16898, exhibit.ENSEMBLE: 8 * 1541}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """Those of the profile smoke, computed here and stored as the runner would."""
    folder = tmp_path_factory.mktemp("toy")
    store, jobs = Store(folder), exhibit.jobs("smoke")
    for job in jobs:
        store.keep(job, job.inputs, job.function(job.inputs, folder / job.label, lambda share: None), 1.0, 1.0)
    return store.records(jobs)


def name_of(one: Record) -> str:
    inputs = one["inputs"]
    return inputs["method"] if "members" not in inputs else f"{inputs['members']} x {inputs['method']}"


def test_parameters_are_those_of_the_paper(records: list[Record]) -> None:
    assert {name_of(one): one["results"]["parameters"] for one in records} == COUNTS


def test_distance_is_that_of_scipy() -> None:
    from scipy.stats import wasserstein_distance

    torch.manual_seed(0)
    a, b = torch.randn(50, 7), 2.0 * torch.randn(50, 7) + torch.arange(7.0)
    expected = [wasserstein_distance(a[:, i].numpy(), b[:, i].numpy()) for i in range(7)]
    assert toy.wasserstein(a, b).tolist() == pytest.approx(expected, rel=1e-5)


def test_stored_quantiles_give_the_distance_of_all_samples() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2000, 5), torch.rand(2000, 5) + 0.5
    exact, stored = toy.wasserstein(a, b), toy.wasserstein(toy.quantiles(a), toy.quantiles(b))
    assert ((stored - exact).abs() < 0.03 * exact).all()


def test_data_have_a_gap_and_the_noise_of_the_paper() -> None:
    data = [toy.make_data(seed) for seed in range(30)]
    x, low, high = torch.cat([one.x for one in data]), *toy.GAP
    assert not ((x > low) & (x < high)).any()
    assert -1.0 < x.min() < -0.9 < 1.9 < x.max() < 2.0
    assert len(x) / (128 * len(data)) == pytest.approx(0.8, abs=0.03)
    residual = torch.cat([one.y[:, 0] - _interpolated(one) for one in data])
    assert float(residual.square().mean()) == pytest.approx(toy.NOISE_VARIANCE, rel=0.1)
    assert torch.equal(data[0].y, toy.make_data(0).y)


def _interpolated(data: toy.ToyData) -> torch.Tensor:
    """The function at the inputs, from its values on the grid."""
    place = (data.x[:, 0] - toy.GRID[0]) / (toy.GRID[1] - toy.GRID[0])
    left = place.floor().long()
    return torch.lerp(data.truth[left], data.truth[left + 1], place - left)


def test_prior_of_the_function_has_about_unit_variance() -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        values = torch.stack([toy.network("sghmc")(toy.GRID)[:, 0] for _ in range(400)])
    assert 1.5 < float(values.square().mean()) < 2.5  # one for the last bias, one for the features


def test_x_itself_is_not_dropped() -> None:
    _, first, _, second, *_ = toy.network("mcd")
    assert (first.p, second.p) == (0.0, 0.4)


def test_unknown_method_names_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match="g-whvi, nf-whvi, mfg, mcd, sghmc"):
        toy.network("nonsense")


def test_noise_stays_at_its_true_value(records: list[Record]) -> None:
    for one in records:
        assert one["results"]["metrics"]["noise"] == pytest.approx(toy.NOISE_VARIANCE**0.5, rel=1e-5)


def test_bands_are_quantiles_of_the_functions() -> None:
    functions = torch.arange(1001.0).unsqueeze(-1)
    found = toy.describe(functions)
    assert found["mean"] == [500.0]
    assert {level: values[0] for level, values in found["bands"].items()} == pytest.approx(
        {"0.025": 25.0, "0.125": 125.0, "0.5": 500.0, "0.875": 875.0, "0.975": 975.0}, abs=1e-2
    )


def test_chains_tell_how_well_they_mixed(records: list[Record]) -> None:
    metrics = next(one["results"]["metrics"] for one in records if one["inputs"]["method"] == "sghmc")
    assert metrics["rhat"] > 1.05  # 40 steps are no posterior, and the record says so
    assert metrics["effective_sample_size"] < 64


def test_figure_has_a_panel_with_the_count_for_each_method(records: list[Record]) -> None:
    figure = exhibit.draw(records)
    assert [axis.get_title() for axis in figure.axes] == [
        f"{method.upper().replace('X', 'x')}, {count:,} parameters" for method, count in COUNTS.items()
    ]


def test_exhibit_shows_distances(records: list[Record]) -> None:
    shown = exhibit.show(records)
    drawing, table = shown.blocks
    assert isinstance(drawing, Figure)
    assert drawing.svg.startswith("<svg")
    assert isinstance(table, Table)
    near = exhibit.distances(records)
    assert [row[2].text for row in table.rows] == [f"{near[name]:.3f}" if name in near else "-" for name in COUNTS]
    assert {entry.method: entry.mean for entry in shown.entries if entry.metric == "wasserstein"} == near
    assert {entry.method for entry in shown.entries if entry.metric == "elbo"} == {"g-whvi", "nf-whvi", "mfg"}


def test_a_method_that_equals_sghmc_has_distance_zero(records: list[Record]) -> None:
    sghmc = next(one for one in records if one["inputs"]["method"] == "sghmc")
    same: dict[str, Any] = {**sghmc, "inputs": {"method": "mfg"}}
    assert exhibit.distances([same, sghmc]) == {"mfg": 0.0}


@pytest.mark.parametrize("count", [1, 4])
def test_missing_records_are_no_trouble(records: list[Record], count: int) -> None:
    shown = exhibit.show([one for one in records if name_of(one) != "sghmc"][:count])
    assert len(shown.blocks) == 2
    assert "wasserstein" not in {entry.metric for entry in shown.entries}


def test_smoke_and_paper_differ_in_settings_only() -> None:
    smoke, paper = exhibit.jobs("smoke"), exhibit.jobs("recipe")
    assert [job.label for job in smoke] == [job.label for job in paper] == list(COUNTS)
    assert all(replace(a, inputs=b.inputs, cost=b.cost) == b for a, b in zip(smoke, paper, strict=True))
    with pytest.raises(ArgumentError, match="profile"):
        exhibit.jobs("nonsense")


def test_training_learns(tmp_path: Path) -> None:
    settings = exhibit.PLANS["smoke"][0] | {"method": "g-whvi", "data_seed": 0, "seed": 1}
    start, end = (
        toy.train([settings | {"steps": steps}], tmp_path / str(steps), lambda share: None)[0]["metrics"]["elbo"]
        for steps in (10, 400)
    )
    assert end > start + 300


def test_start_is_a_draw_of_the_prior() -> None:
    torch.manual_seed(0)
    for parameter, margin in zip(toy.UnitLinear(200, 200).parameters(), (0.02, 0.2), strict=True):
        assert float(parameter.detach().std()) == pytest.approx(1.0, abs=margin)


def test_published_chains_mixed_and_whvi_is_nearest_to_them() -> None:
    published = Store(Path(__file__).parents[3] / "results").records(exhibit.jobs("recipe"))
    near = exhibit.distances(published)
    assert max(near["g-whvi"], near["nf-whvi"]) < min(near["mfg"], near["mcd"])
    assert near[exhibit.ENSEMBLE] < near["g-whvi"]
    (rhat,) = (one["results"]["metrics"]["rhat"] for one in published if one["inputs"]["method"] == "sghmc")
    assert rhat < 1.05
