"""How our numbers stand to the paper's, and the table made of that."""

import io
import json
import math
from dataclasses import replace

import pytest
from samples import DATASETS, METHODS, entry, regression

from whvi.errors import ArgumentError
from whvi_paper.blocks import Tone
from whvi_paper.report import comparison_table, entries_json, terminal_tables, tone
from whvi_paper.report.compare import printed
from whvi_paper.report.standing import against_best, counts, deviation, once


def test_runs_that_two_exhibits_show_count_once_beside_the_papers_number() -> None:
    beside = replace(entry(), records=("a", "b"))
    alone = replace(beside, exhibit="terms", paper_mean=None, paper_std=None, paper_corrected=None)
    other = replace(alone, records=("c",))
    for order in ([beside, alone, other], [alone, other, beside]):
        assert set(once(order)) == {beside, other}


@pytest.mark.parametrize(
    ("mean", "changes", "expected"),
    [
        (0.68, {}, Tone.BETTER),
        (0.6949, {}, Tone.BETTER),  # printed as 0.69
        (0.6951, {}, Tone.WITHIN),
        (0.8549, {}, Tone.WITHIN),  # 0.69 + 0.16, and half a unit of the last decimal
        (0.8551, {}, Tone.WORSE),
        (0.6949, {"paper_std": 0.0}, Tone.BETTER),
        (0.6951, {"paper_std": 0.0}, Tone.WORSE),
        (0.6951, {"paper_std": None}, Tone.WORSE),
        (0.78, {"paper_corrected": 0.7832}, Tone.BETTER),  # above the printed number, below the corrected one
        (0.7881, {"paper_corrected": 0.7832}, Tone.BETTER),  # 0.6949 in the paper's way of counting
        (0.7883, {"paper_corrected": 0.7832}, Tone.WITHIN),
        (0.9482, {"paper_corrected": 0.7832}, Tone.WITHIN),
        (0.9484, {"paper_corrected": 0.7832}, Tone.WORSE),
        (0.6949, {"paper_std": None, "paper_decimals": 4}, Tone.WORSE),
        (0.69004, {"paper_std": None, "paper_decimals": 4}, Tone.BETTER),  # printed as 0.6900
        (math.nan, {}, Tone.WORSE),
        (math.inf, {}, Tone.WORSE),
        (math.nan, {"n": 0}, Tone.PLAIN),
        (0.1, {"paper_mean": None, "paper_std": None}, Tone.PLAIN),
    ],
)
def test_tone_follows_the_papers_two_decimals(mean: float, changes: dict[str, float | None], expected: Tone) -> None:
    assert tone(entry(mean=mean, **changes)) is expected


def test_distance_is_in_the_papers_stds_and_from_the_corrected_number() -> None:
    assert deviation(entry(mean=0.85)) == pytest.approx(1.0)
    assert deviation(entry(mean=0.85, paper_corrected=0.77)) == pytest.approx(0.5)
    assert deviation(entry(paper_std=0.0)) is None
    assert deviation(entry(paper_mean=None)) is None
    assert printed(entry(paper_corrected=0.69)) == ["paper 0.69 (0.16)"]


def test_table_has_a_row_for_each_dataset_and_for_each_metric_a_column_for_each_method() -> None:
    table = comparison_table(regression(), "2 x 128", ["rmse", "mnll"])
    names = [*(method.upper() for method in METHODS), "best in paper"]
    assert list(table.head) == ["dataset", *(f"{metric} {name}" for metric in ("RMSE", "MNLL") for name in names)]
    assert [row[0].text for row in table.rows] == list(DATASETS)
    assert all(len(row) == len(table.head) for row in table.rows)
    numbers = {(cell.dataset, cell.metric, cell.method): cell for cell in regression()}
    for row in table.rows:
        for column, cell in zip(table.head[1:], row[1:], strict=True):
            metric, _, method = column.lower().partition(" ")
            if method in METHODS:
                number = numbers[row[0].text, metric, method]
                assert cell.text.startswith(f"{number.mean:.2f} (0.10)\npaper {number.paper_mean:.2f} (0.20)\n")
                assert ("corrected" in cell.text) == (metric == "mnll" and method != "nng")
                assert ("7 of 8 splits" in cell.text) == (number.n == 7)
                assert cell.tone is tone(number)
                assert number.records[7][:10] in cell.note
                assert "10 min" in cell.note


def test_best_in_the_paper_is_marked_by_where_whvi_stands() -> None:
    entries = [entry(mean=0.6), entry(method="mcd", paper_mean=0.5), entry(method="nng", paper_mean=0.4)]
    *_, best = comparison_table(entries, "", ["rmse"]).rows[0]
    assert (best.text, best.tone) == ("0.40\nNNG", Tone.WORSE)
    assert [tone(cell) for cell in against_best(entries)] == [Tone.WORSE]
    assert not against_best(entries[:1])  # the paper compares it with nothing
    assert "best in paper" not in str(comparison_table(entries[:1], "", ["rmse"]).head)


def test_rows_are_told_apart_by_what_varies() -> None:
    widths = [entry(width=width, dataset=name) for name in ("boston", "yacht") for width in (64, 128)]
    names = [row[0].text for row in comparison_table(widths, "", ["rmse"]).rows]
    assert names == ["boston 2 × 64", "boston 2 × 128", "yacht 2 × 64", "yacht 2 × 128"]
    models = [entry(model=model) for model in ("mlp", "deep")]
    assert [row[0].text for row in comparison_table(models, "", ["rmse"]).rows] == ["yacht mlp", "yacht deep"]


def test_what_was_not_run_is_a_dash_and_no_entry_twice() -> None:
    entries = [entry(), entry(dataset="boston", method="mcd", n=0, mean=math.nan)]
    rows = comparison_table(entries, "", ["rmse", "mnll"]).rows
    assert [[cell.text.split("\n")[0] for cell in row] for row in rows] == [
        ["yacht", "0.69 (0.10)", "–", "0.69"],
        ["boston", "–", "–", "0.69"],
    ]
    assert comparison_table([], "", ["rmse"]).rows == []
    with pytest.raises(ArgumentError, match="two entries for yacht / rmse / whvi"):
        comparison_table([entry(), entry()], "", ["rmse"])


def test_every_number_is_counted_by_its_tone() -> None:
    assert counts(regression()) == {Tone.BETTER: 22, Tone.WITHIN: 22, Tone.WORSE: 20, Tone.PLAIN: 0}


def test_json_has_every_field_of_every_entry() -> None:
    entries = [entry(mean=math.nan), entry(metric="mnll", paper_corrected=0.7832)]
    first, second = json.loads(entries_json(entries))
    assert first["mean"] is None
    assert second == {
        "exhibit": "uci-regression",
        "method": "whvi",
        "dataset": "yacht",
        "model": "mlp",
        "depth": 2,
        "width": 128,
        "metric": "mnll",
        "mean": 0.69,
        "std": 0.1,
        "n": 8,
        "paper_mean": 0.69,
        "paper_std": 0.16,
        "paper_corrected": 0.7832,
        "cpu_seconds": 600.0,
        "parameters": 1541,
        "failed": 0,
        "records": ["a" * 64, "b" * 64],
        "paper_decimals": 2,
    }
    assert json.loads(entries_json([])) == []


def test_terminal_shows_ours_and_the_papers() -> None:
    from rich.console import Console

    entries = [entry(mean=0.85, metric="mnll", paper_corrected=0.77, dataset="powerplant"), entry(n=0, mean=math.nan)]
    console = Console(width=80, file=io.StringIO())
    console.print(*terminal_tables([*entries, entry(exhibit="out-of-distribution")]))
    exhibit, _, first, second, other, *_ = console.file.getvalue().splitlines()
    assert (exhibit.strip(), other.strip()) == ("uci-regression", "out-of-distribution")
    assert " ".join(first.split()) == "powerplant 2x128 WHVI MNLL ● 0.85 (0.10) 0.69 (0.16) 0.77 +0.5 std 8"
    assert " ".join(second.split()) == "yacht 2x128 WHVI RMSE – 0.69 (0.16) 0"
