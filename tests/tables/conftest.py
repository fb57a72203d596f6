"""Tables as a new user has them, and the command line in this process."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from table_terminal import Outcome, Run

from whvi import cli


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """``whvi ...`` in an empty folder."""
    for name, value in {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["whvi", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        return Outcome(int(leaving.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def diabetes() -> pd.DataFrame:
    """Numbers with strings, missing values, a constant, an identifier, names, dates and truth values beside them."""
    rng = np.random.default_rng(0)
    frame = load_diabetes(as_frame=True, scaled=False).frame.iloc[:200].rename(columns={"target": "progression"})
    frame["sex"] = np.where(frame["sex"] == 1, "female", "male")
    frame.loc[rng.random(len(frame)) < 0.1, "bmi"] = np.nan
    frame.loc[rng.random(len(frame)) < 0.1, "sex"] = None
    frame["country"], frame["id"] = "Sweden", np.arange(len(frame))
    frame["name"] = [f"patient {number}" for number in range(len(frame))]
    frame["visit"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 800, len(frame)), "D")
    frame["smoker"] = rng.random(len(frame)) < 0.3
    return frame


@pytest.fixture
def cancer() -> pd.DataFrame:
    """Two classes by name."""
    found = load_breast_cancer(as_frame=True)
    frame = found.data.iloc[:200, :6].copy()
    frame["diagnosis"] = found.target_names[found.target[:200]]
    return frame


@pytest.fixture
def tables(diabetes: pd.DataFrame, cancer: pd.DataFrame, tmp_path: Path) -> Path:
    """A folder with diabetes.csv and cancer.csv."""
    diabetes.to_csv(tmp_path / "diabetes.csv", index=False)
    cancer.to_csv(tmp_path / "cancer.csv", index=False)
    return tmp_path
