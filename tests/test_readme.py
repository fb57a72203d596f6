"""README is short, and its table is that of the record."""

import json
import re
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
NAMES = {
    "WHVIRegressor": "WHVIRegressor",
    "Gaussian process": "GaussianProcessRegressor",
    "random forest": "RandomForestRegressor",
    "gradient boosting": "HistGradientBoostingRegressor",
    "Bayesian ridge": "BayesianRidge",
}
WORDS = 600


def test_readme_is_short() -> None:
    assert len(TEXT.split()) < WORDS


def test_the_table_is_that_of_the_record() -> None:
    record = json.loads((ROOT / "results/bench/estimators.json").read_text())
    tables = [methods for methods in record.values() if "rmse" in methods.get("WHVIRegressor", {})]
    assert len(tables) >= 9
    for name, method in NAMES.items():
        found = re.search(rf"^\| {name} \| ([\d.]+) \| ([\d.]+) \| (\d+) to (\d+) % \|$", TEXT, flags=re.MULTILINE)
        assert found, name
        for shown, metric in zip(found.groups()[:2], ("mnll", "rmse"), strict=True):
            ranks = [sorted(t[m][metric] for m in NAMES.values()).index(t[method][metric]) + 1 for t in tables]
            assert shown == f"{fmean(ranks):.1f}", (name, metric)
        held = [100 * t[method]["coverage_90"] for t in tables]
        assert found.groups()[2:] == (f"{min(held):.0f}", f"{max(held):.0f}"), name
