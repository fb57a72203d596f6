"""``whvi fit`` and ``whvi predict`` as a new user calls them."""

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from table_terminal import QUICK, Run

import whvi_tables.folder
from whvi.errors import MissingPackageError
from whvi.sklearn import WHVIRegressor
from whvi_tables.commands import friendly


@pytest.fixture
def no_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take time, and other tests look at them."""
    monkeypatch.setattr("whvi_tables.report.pictures", lambda *_: [])


def test_numbers_from_fit_to_predict(run: Run, tables: Path, diabetes: pd.DataFrame) -> None:
    diabetes.loc[:4, "progression"] = np.nan
    diabetes.to_csv("gaps.csv", index=False)
    done = run("fit", "gaps.csv", "--target", "progression", "--drop", "s6", *QUICK)
    assert done.code == 0, done
    for words in (
        "5 of 200 rows have no progression and are dropped.",
        "Task: regression of progression (numbers,",
        "sex: category, one-hot of 3: (missing), female, male",
        "bmi: number, missing: median",
        "country: dropped, constant: always Sweden",
        "id: dropped, an identifier",
        "s6: dropped, dropped by --drop",
        "visit: date",
        "smoker: boolean",
        "Training on 156 rows",
        "39 held-out rows",
        "coverage of 90 % intervals",
        "trained on the training rows only",
    ):
        assert words in done.out
    assert run("predict", "model", "diabetes.csv", "-o", "out.csv").code == 0
    found = pd.read_csv("out.csv")
    assert found.columns.tolist() == ["mean", "std", "low_90", "high_90"]
    assert len(found) == 200
    assert ((found["low_90"] < found["mean"]) & (found["mean"] < found["high_90"]) & (found["std"] > 0)).all()
    loaded = whvi_tables.folder.load(Path("model"))
    x = loaded.columns.matrix(diabetes).values
    assert found["mean"].to_numpy() == pytest.approx(WHVIRegressor.load("model/estimator").predict(x), rel=1e-12)
    metrics = json.loads(Path("model/metrics.json").read_text())
    assert metrics["held_out_rows"] == 39


@pytest.mark.usefixtures("no_drawing")
def test_classes_from_fit_to_predict(run: Run, tables: Path, cancer: pd.DataFrame) -> None:
    cancer.to_parquet("cancer.parquet")
    assert run("fit", "cancer.parquet", "--target", "diagnosis", "--out", "deep/model", *QUICK).code == 0
    new = cancer.drop(columns="diagnosis").assign(extra="ignored")
    new.to_csv("new.csv", index=False)
    done = run("predict", "deep/model", "new.csv", "-o", "out.parquet", "--samples", "8", "--keep")
    assert (done.code, done.out) == (0, "200 rows: out.parquet\n")
    found = pd.read_parquet("out.parquet")
    added = ["class", "probability_benign", "probability_malignant", "entropy"]
    assert found.columns.tolist() == [*new.columns, *added]
    shares = found[added[1:3]].to_numpy()
    assert shares.sum(1) == pytest.approx(1.0)
    assert (found["class"] == np.where(shares[:, 0] >= 0.5, "benign", "malignant")).all()
    assert found["entropy"].to_numpy() == pytest.approx(-(shares * np.log(shares)).sum(1), abs=1e-9)


@pytest.mark.usefixtures("no_drawing")
def test_level_is_in_the_names_and_widens(run: Run, tables: Path) -> None:
    run("fit", "diabetes.csv", "--target", "progression", *QUICK)
    widths = []
    for level in ("0.5", "0.975"):
        assert run("predict", "model", "diabetes.csv", "-o", f"{level}.csv", "--level", level).code == 0
        found = pd.read_csv(f"{level}.csv")
        share = f"{100 * float(level):g}"
        widths.append(found[f"high_{share}"] - found[f"low_{share}"])
    assert (widths[0] < widths[1]).all()
    same = run("predict", "model", "diabetes.csv", "-o", "0.5.csv")
    assert "0.5.csv exists" in same.mistake()
    assert run("predict", "model", "diabetes.csv", "-o", "0.5.csv", "--force").code == 0
    strange = pd.read_csv("diabetes.csv").assign(sex="unknown").drop(columns=["progression"])
    strange.to_csv("strange.csv", index=False)
    assert (
        "sex: 200 not seen in training, such as 'unknown'" in run("predict", "model", "strange.csv", "-o", "s.csv").out
    )
    strange.drop(columns=["age", "bp"]).to_csv("short.csv", index=False)
    assert "no column 'age', 'bp', which" in run("predict", "model", "short.csv", "-o", "t.csv").mistake()
    strange.assign(mean=1).to_csv("clash.csv", index=False)
    assert "has 'mean' already" in run("predict", "model", "clash.csv", "-o", "t.csv", "--keep").mistake()
    assert "--level must be" in run("predict", "model", "strange.csv", "-o", "t.csv", "--level", "90").mistake()
    assert "ends in '.txt'" in run("predict", "model", "strange.csv", "-o", "t.txt").mistake()
    assert "has no columns.json" in run("predict", ".", "strange.csv", "-o", "t.csv").mistake()
    (Path("model") / "columns.json").write_text("damaged")
    assert "is damaged" in run("predict", "model", "strange.csv", "-o", "t.csv").mistake()
    assert not Path("t.csv").exists()


@pytest.mark.usefixtures("no_drawing")
def test_same_seed_same_model(run: Run, tables: Path) -> None:
    for name in "ab":
        run("fit", "diabetes.csv", "--target", "progression", "--out", name, "--steps", 20, "--hidden", 8)
    assert Path("a/metrics.json").read_text() == Path("b/metrics.json").read_text()


@pytest.mark.usefixtures("no_drawing")
def test_config_and_options(run: Run, tables: Path) -> None:
    Path("fit.toml").write_text('target = "progression"\nsteps = 20\nhidden = [8]\nout = "by-file"\nlevel = 0.5\n')
    assert run("fit", "diabetes.csv", "--config", "fit.toml", "--out", "by-option").code == 0
    assert Path("by-option/report.html").is_file()
    assert not Path("by-file").exists()
    assert "coverage of 50 % intervals" in json.loads(Path("by-option/metrics.json").read_text())["metrics"]
    Path("fit.toml").write_text("stepz = 20\n")
    assert "did you mean 'steps'?" in run("fit", "diabetes.csv", "--config", "fit.toml").mistake()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.csv", "--target", "y"], "nothing.csv does not exist"),
        (["empty.csv", "--target", "y"], "empty.csv is empty"),
        (["header.csv", "--target", "y"], "header but no rows"),
        (["picture.csv", "--target", "y"], "picture.csv is not text"),
        ([".", "--target", "y"], "a table ends in"),
        (["diabetes.csv"], "no target was given"),
        (["diabetes.csv", "--target", "price"], "no column 'price' to predict; it has 'age', 'sex'"),
        (["diabetes.csv", "--target", "country"], "'Sweden' in every row"),
        (["diabetes.csv", "--target", "name"], "200 classes in 200 rows"),
        (["diabetes.csv", "--target", "age", "--drop", "agee"], "no column 'agee' to drop"),
        (["diabetes.csv", "--target", "age", "--drop", "age"], "is the target"),
        (["diabetes.csv", "--target", "sex", "--task", "regression"], "not numbers, such as"),
        (["diabetes.csv", "--target", "age", "--task", "guess"], "--task must be auto"),
        (["diabetes.csv", "--target", "age", "--hidden", "big"], "--hidden must be widths"),
        (["diabetes.csv", "--target", "age", "--steps", "0"], "--steps must be a whole number"),
        (["diabetes.csv", "--target", "age", "--test-share", "2"], "--test-share must be"),
        (["diabetes.csv", "--target", "age", "--out", "diabetes.csv"], "exists"),
        (["diabetes.csv", "--target", "age", "--out", "diabetes.csv/model"], "not a folder that can be written"),
        (["bare.csv", "--target", "y"], "no column is left"),
    ],
)
def test_mistake_is_one_line_and_leaves_nothing(run: Run, tables: Path, arguments: list[str], message: str) -> None:
    Path("empty.csv").touch()
    Path("header.csv").write_text("x,y\n")
    Path("picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n\x03\x07")
    Path("bare.csv").write_text("one,y\n" + "".join(f"1,{number}.5\n" for number in range(30)))
    before = sorted(Path().iterdir())
    assert message in run("fit", *arguments).mistake()
    assert sorted(Path().iterdir()) == before


def test_interrupt_is_one_line_and_leaves_nothing(run: Run, tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(tables.iterdir())

    def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(WHVIRegressor, "fit", interrupted)
    done = run("fit", "diabetes.csv", "--target", "progression")
    assert (done.code, done.err) == (130, "whvi: interrupted; no file is partly written\n")
    assert sorted(tables.iterdir()) == before


@pytest.mark.parametrize("missing", ["jinja2", "pandas", "sklearn.base", "matplotlib.figure"])
def test_missing_package_of_tables_says_how_to_install_it(missing: str) -> None:
    package = missing.partition(".")[0]
    with (
        pytest.raises(MissingPackageError, match=f"tables need {package}, install it with: pip install 'whvi"),
        friendly(),
    ):
        raise ModuleNotFoundError(name=missing)
    with pytest.raises(ModuleNotFoundError, match="a mistake of ours"), friendly():
        raise ModuleNotFoundError("a mistake of ours", name="whvi.nothing")


def test_old_import_path_warns_and_gives_the_same_objects() -> None:
    for name in [name for name in sys.modules if name == "whvi.tables" or name.startswith("whvi.tables.")]:
        del sys.modules[name]
    with pytest.warns(DeprecationWarning, match="whvi.tables has moved: import whvi_tables"):
        old = import_module("whvi.tables.folder")
    assert old is whvi_tables.folder
    assert import_module("whvi.tables").folder is old


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_help_has_an_example_of_the_table_commands(run: Run, command: str) -> None:
    done = run(command, "--help")
    assert done.code == 0
    assert f"Example: whvi {command} houses" in done.out


def test_command_in_a_process_of_its_own(tables: Path) -> None:
    command = [sys.executable, "-m", "whvi.cli", "fit", "cancer.csv", "--target", "diagnosis", *QUICK]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tables, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    assert "accuracy" in done.stdout
    assert (tables / "model" / "report.html").is_file()


@pytest.mark.usefixtures("no_drawing")
def test_model_is_not_replaced_unasked(run: Run, tables: Path) -> None:
    call = ("fit", "diabetes.csv", "--target", "progression", "--steps", "20", "--hidden", "8")
    assert run(*call).code == 0
    before = Path("model/metrics.json").read_text()
    assert "model exists; choose another --out, or --force" in run(*call, "--seed", "1").mistake()
    assert Path("model/metrics.json").read_text() == before
    assert run(*call, "--seed", "1", "--force").code == 0
    assert Path("model/metrics.json").read_text() != before
