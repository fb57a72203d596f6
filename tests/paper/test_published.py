"""The committed records, and the pages that are made of them."""

import json
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

from whvi_paper import printed
from whvi_paper.blocks import Entry, Shown, Table, Tone
from whvi_paper.exhibits import show_all
from whvi_paper.report import entries_json, markdown
from whvi_paper.report.compare import note
from whvi_paper.report.standing import tone
from whvi_paper.store import read

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shown() -> list[Shown]:
    return show_all(ROOT / "results")


def entries(shown: list[Shown], exhibit: str, method: str = "whvi") -> list[Entry]:
    return [e for one in shown if one.name == exhibit for e in one.entries if e.method == method]


def test_the_page_of_results_is_made_of_the_records(shown: list[Shown], tmp_path: Path) -> None:
    assert markdown(shown, tmp_path / "results") == (ROOT / "docs/results.md").read_text()
    assert {path.name for path in (tmp_path / "results").iterdir()} == {
        path.name for path in (ROOT / "docs/results").iterdir()
    }


def test_the_records_are_a_small_file_for_each_exhibit() -> None:
    files = sorted((ROOT / "results/runs").iterdir())
    records = [record for file in files for record in read(file).values()]
    assert len(records) >= 1275
    assert all(file.suffix == ".jsonl" and file.stat().st_size < 1_000_000 for file in files)
    for file in files:
        assert list(read(file)) == sorted(read(file))
        assert {record["exhibit"] for record in read(file).values()} == {file.stem}


def test_the_tables_are_their_records(shown: list[Shown]) -> None:
    """Each number is the mean of a metric over the records that it names; what is worse than the paper's is marked."""
    records = {name: one for file in (ROOT / "results/runs").iterdir() for name, one in read(file).items()}
    checked = 0
    for exhibit in shown:
        for entry in exhibit.numbers:
            assert len(entry.records) == entry.n or entry.exhibit == "approximation"
            values = [records[name]["results"]["metrics"].get(entry.metric) for name in entry.records]
            if values and all(isinstance(value, float) for value in values):
                assert entry.mean == pytest.approx(fmean(values), rel=1e-12), entry
                checked += 1
    assert checked > 1000


def test_every_number_that_is_worse_than_the_papers_is_shown(shown: list[Shown]) -> None:
    for exhibit in shown:
        fields = [cell for block in exhibit.blocks if isinstance(block, Table) for row in block.rows for cell in row]
        marked = [cell.note for cell in fields if cell.tone is Tone.WORSE and cell.note]
        worse = [note(entry) for entry in exhibit.numbers if tone(entry) is Tone.WORSE]
        if exhibit.name != "yacht-width":  # a drawing of numbers that another exhibit has in a table
            assert not Counter(worse) - Counter(marked), exhibit.name


def test_results_as_json_have_the_fields_that_others_read(shown: list[Shown]) -> None:
    listed = json.loads(entries_json([entry for one in shown for entry in one.numbers]))
    fields = {"exhibit", "method", "dataset", "model", "depth", "width", "metric", "mean", "std", "n"}
    fields |= {"paper_mean", "paper_std", "paper_corrected"}
    named = {entry["exhibit"] for entry in listed}
    assert {one.name for one in shown} - named == {"covariance", "claims"}  # pictures and words
    assert sum(entry["exhibit"] == "gaussian-processes" for entry in listed) == 210
    assert all(fields <= entry.keys() for entry in listed)
    naval = next(e for e in listed if e["dataset"] == "naval" and e["metric"] == "mnll")
    assert naval["paper_corrected"] == pytest.approx(naval["paper_mean"] + 2 * 0.0932, abs=1e-4)


def test_the_page_about_the_paper_has_the_numbers_of_the_records(shown: list[Shown]) -> None:
    text = (ROOT / "docs/paper.md").read_text()
    cells = {(cell.dataset, cell.metric): cell for cell in entries(shown, "uci-regression")}
    for dataset in printed.REGRESSION_DATASETS:
        rmse, mnll = cells[dataset, "rmse"], cells[dataset, "mnll"]
        digits = 5 if dataset == "naval" else 3 if dataset == "kin8nm" else 2
        ours, paper = f"{rmse.mean:.{digits}f}", f"{rmse.paper_mean:.2f}"
        row = f"| {dataset} | {ours} | {paper} | {mnll.mean:.2f} | {mnll.paper_corrected:.2f} |"
        assert row in text, row


def test_the_page_about_the_paper_has_the_convolutional_networks(shown: list[Shown]) -> None:
    text = (ROOT / "docs/paper.md").read_text()
    cells = {(cell.model, cell.metric): cell for cell in entries(shown, "convnets") if cell.n}
    assert cells
    for model in {model for model, _ in cells}:
        error, mnll, ece = (cells[model, metric] for metric in ("error", "mnll", "ece"))
        assert (
            f"| {model} | {error.mean:.2%} | {error.paper_mean:.2%} | {mnll.mean:.3f} | {mnll.paper_mean:.3f} |" in text
        )
        assert f"| {ece.mean:.3f} | {error.parameters:,} (" in text
