"""README is short, and its table is that of the records."""

import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from whvi_paper.exhibits import uci_standard
from whvi_paper.store import Store

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
NAMES = {
    "WHVIRegressor": "whvi-8",
    "Gaussian process": "gp",
    "gradient boosting": "boosting",
    "deep ensemble": "ensemble",
    "NGBoost": "ngboost",
}
WORDS = 600


def test_readme_is_short() -> None:
    assert len(TEXT.split()) < WORDS


def test_the_table_is_that_of_the_records() -> None:
    runs: uci_standard.Runs = defaultdict(list)
    for record in Store(ROOT / "results").records(uci_standard.jobs("recipe")):
        runs[record["inputs"]["dataset"], record["inputs"]["method"]].append(record)
    common = [name for name in uci_standard.DATASETS if all((name, method) in runs for method in uci_standard.METHODS)]
    ranks = [uci_standard.ranks(metric, runs) for metric in ("mnll", "rmse")]
    for name, method in NAMES.items():
        found = re.search(rf"^\| {name} \| ([\d.]+) \| ([\d.]+) \| (\d+) to (\d+) % \|$", TEXT, re.MULTILINE)
        assert found, name
        assert found.groups()[:2] == tuple(f"{rank[method]:.1f}" for rank in ranks), name
        held = [fmean(r["results"]["metrics"]["coverage_90"] for r in runs[one, method]) for one in common]
        assert found.groups()[2:] == (f"{100 * min(held):.0f}", f"{100 * max(held):.0f}"), name
