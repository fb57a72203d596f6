"""Tables whose names and values are meant to do harm: on the screen, in a spreadsheet, to a fit that took long."""

from pathlib import Path

import pandas as pd
import pytest
from table_terminal import Run

from whvi_tables import report

LABEL = '=HYPERLINK("http://127.0.0.1","see")'
NAMES = ("[/b]", "\x1b]0;owned\x07", "[link=http://127.0.0.1]x[/link]", "<script>alert(1)</script>", "a\x00\x08b\u202e")
QUICK = ("--steps", "5", "--hidden", "4")


def table(target: str) -> pd.DataFrame:
    return pd.DataFrame({"\x1b[31mx": [float(row % 7) for row in range(60)], target: [LABEL, "\x1b[2J-2"] * 30})


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whvi_tables.report.pictures", lambda *_: [])


@pytest.mark.parametrize("target", NAMES)
def test_names_do_nothing_to_the_screen(run: Run, target: str) -> None:
    table(target).to_parquet("table.parquet")
    done = run("fit", "table.parquet", "--target", target, *QUICK)
    assert done.code == 0, done
    assert set(map(ord, filter(lambda char: not char.isprintable(), done.out + done.err))) <= {ord("\n")}
    assert "\\x1b[31mx: number" in done.out
    shown = target.encode("unicode_escape").decode()
    assert f"classification of {shown} (texts" in done.out
    assert f"{shown},12held-outrows" in "".join(done.out.split())  # the title of the table has many lines
    assert "\x1b" not in run("fit", "table.parquet", "--target", "\x1b[2Jno").mistake()


def test_texts_that_a_spreadsheet_computes_are_escaped_where_that_is_asked(run: Run) -> None:
    table("label").to_csv("table.csv", index=False)
    assert run("fit", "table.csv", "--target", "label", *QUICK).code == 0
    pd.DataFrame({"\x1b[31mx": [1.0, -2.0], "@note": ["=1+1", "-5"]}).to_csv("new.csv", index=False)
    found = {}
    for name, option in (("raw", ()), ("safe", ("--escape-formulas",))):
        assert run("predict", "model", "new.csv", "--keep", "-o", f"{name}.csv", *option).code == 0
        found[name] = pd.read_csv(f"{name}.csv", dtype=str)
    assert "@note" in found["raw"]
    assert found["safe"]["'@note"].tolist() == ["'=1+1", "-5"]
    assert found["safe"]["\x1b[31mx"].tolist() == ["1.0", "-2.0"]
    assert set(found["safe"]["class"]) <= {f"'{LABEL}", "\x1b[2J-2"}
    for frame in found.values():
        assert f"probability_{LABEL}" in frame


def test_a_report_that_cannot_be_drawn_costs_no_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    table("label").to_csv("table.csv", index=False)

    def fail(*_: object) -> str:
        raise RuntimeError("no fonts")

    monkeypatch.setattr(report, "page", fail)
    done = run("fit", "table.csv", "--target", "label", *QUICK)
    assert (done.code, done.err) == (1, "")
    assert "Report:  none; it could not be written (RuntimeError: no fonts), but the model is complete" in done.out
    assert not Path("model/report.html").exists()
    assert run("predict", "model", "table.csv", "-o", "out.csv").code == 0
