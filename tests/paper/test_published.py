"""The committed records, and the pages that are made of them."""

import json
from pathlib import Path

import pytest

from whvi_paper import printed
from whvi_paper.blocks import Entry, Shown, Tone
from whvi_paper.exhibits import show_all
from whvi_paper.report import entries_json, markdown
from whvi_paper.report.standing import against_best, counts, tone
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


def test_whvi_reaches_the_paper_on_regression(shown: list[Shown]) -> None:
    """2 x 128: no cell is worse than the paper's WHVI, and at least 12 of 16 are as good as its best method."""
    cells = entries(shown, "uci-regression")
    assert {(cell.dataset, cell.metric) for cell in cells} == {
        (dataset, metric) for dataset in printed.REGRESSION_DATASETS for metric in ("rmse", "mnll")
    }
    assert all(cell.n == 8 and tone(cell) in (Tone.BETTER, Tone.WITHIN) for cell in cells)
    everything = [entry for one in shown if one.name == "uci-regression" for entry in one.entries]
    assert counts(against_best(everything))[Tone.BETTER] >= 12


def test_whvi_of_other_widths_reaches_the_paper(shown: list[Shown]) -> None:
    cells = entries(shown, "uci-widths")
    assert len(cells) == len(printed.WIDTHS) * len(printed.REGRESSION_DATASETS) * 2
    assert all(cell.n == 8 and tone(cell) in (Tone.BETTER, Tone.WITHIN) for cell in cells)


def test_results_as_json_have_the_fields_that_others_read(shown: list[Shown]) -> None:
    listed = json.loads(entries_json([entry for one in shown for entry in one.entries]))
    fields = {"exhibit", "method", "dataset", "model", "depth", "width", "metric", "mean", "std", "n"}
    fields |= {"paper_mean", "paper_std", "paper_corrected"}
    assert listed
    assert all(fields <= entry.keys() for entry in listed)
    naval = next(e for e in listed if e["dataset"] == "naval" and e["metric"] == "mnll")
    assert naval["paper_corrected"] == pytest.approx(naval["paper_mean"] + 2 * 0.0932, abs=1e-4)


def test_the_readme_has_the_numbers_of_the_records(shown: list[Shown]) -> None:
    text = (ROOT / "README.md").read_text()
    cells = {(cell.dataset, cell.metric): cell for cell in entries(shown, "uci-regression")}
    for dataset in printed.REGRESSION_DATASETS:
        rmse, mnll = cells[dataset, "rmse"], cells[dataset, "mnll"]
        digits = 5 if dataset == "naval" else 3 if dataset == "kin8nm" else 2
        ours, paper = f"{rmse.mean:.{digits}f}", f"{rmse.paper_mean:.2f}"
        row = f"| {dataset} | {ours} | {paper} | {mnll.mean:.2f} | {mnll.paper_corrected:.2f} |"
        assert row in text, row


def test_the_readme_has_the_convolutional_networks(shown: list[Shown]) -> None:
    text = (ROOT / "README.md").read_text()
    cells = {(cell.model, cell.metric): cell for cell in entries(shown, "convnets") if cell.n}
    assert cells
    for model in {model for model, _ in cells}:
        error, mnll, ece = (cells[model, metric] for metric in ("error", "mnll", "ece"))
        assert (
            f"| {model} | {error.mean:.2%} | {error.paper_mean:.2%} | {mnll.mean:.3f} | {mnll.paper_mean:.3f} |" in text
        )
        assert f"| {ece.mean:.3f} | {error.parameters:,} (" in text


def test_whvi_reaches_the_paper_on_convolutional_networks(shown: list[Shown]) -> None:
    """Errors at or below the paper's WHVI, densities at or below the best of its rows."""
    cells = [cell for cell in entries(shown, "convnets") if cell.metric in ("error", "mnll")]
    assert {cell.model for cell in cells} == {"vgg16", "alexnet", "resnet18"}
    assert all(cell.n and tone(cell) is Tone.BETTER for cell in cells)
    everything = [entry for one in shown if one.name == "convnets" for entry in one.entries]
    best = [entry for entry in against_best(everything) if entry.metric == "mnll"]
    assert counts(best) == {Tone.BETTER: 3, Tone.WITHIN: 0, Tone.WORSE: 0, Tone.PLAIN: 0}


def test_whvi_is_no_worse_than_the_paper_on_classification(shown: list[Shown]) -> None:
    """What was run: every error and density of WHVI is at or below the paper's, or within one std of it."""
    cells = [cell for cell in entries(shown, "classification") if cell.n and cell.paper_mean is not None]
    assert {(cell.dataset, cell.width) for cell in cells} >= {
        (dataset, width) for dataset in ("eeg", "magic", "letter") for width in (64, 128)
    }
    assert all(cell.n == 8 and tone(cell) in (Tone.BETTER, Tone.WITHIN) for cell in cells)


def test_densities_of_images_are_better_than_the_papers(shown: list[Shown]) -> None:
    cells = [e for one in shown if one.name == "convnets" for e in one.entries if e.n and e.metric == "mnll"]
    assert cells
    assert all(tone(cell) is Tone.BETTER for cell in cells if cell.paper_mean is not None)
