"""The table of the paper's claims: verdicts follow from the numbers, and each names what it rests on."""

from collections.abc import Callable
from pathlib import Path

import pytest
import samples

from whvi_paper.blocks import Entry, Shown
from whvi_paper.exhibits import EXHIBITS
from whvi_paper.report import judging
from whvi_paper.report.claims import CLAIMS, claims_table
from whvi_paper.report.judging import Judge, Verdict

ROOT = Path(__file__).parents[3]


def shown(name: str, *entries: Entry) -> Shown:
    return Shown(name, name, "", "", [], entries)


def cells(metric: str, ours: float, theirs: float, rival: str = "mcd", **more: object) -> list[Entry]:
    fields = {"metric": metric, "exhibit": "uci-regression", **more}
    return [samples.entry(mean=ours, **fields), samples.entry(mean=theirs, method=rival, **fields)]


def test_each_claim_names_an_exhibit_or_a_file() -> None:
    for claim in CLAIMS:
        assert claim.record in (*EXHIBITS, "–") or any(ROOT.glob(f"**/{claim.record}")), claim
    assert len({claim.words for claim in CLAIMS}) == len(CLAIMS)


def test_without_records_only_formulas_and_hardware_have_a_verdict() -> None:
    for claim, row in zip(CLAIMS, claims_table([]).rows, strict=True):
        settled = claim.judge.__qualname__.startswith("settled")
        assert settled or row[2].text == Verdict.OPEN, claim


@pytest.mark.parametrize(
    ("judge", "wins", "verdict"),
    [
        (judging.majority, 3, Verdict.REPRODUCED), (judging.majority, 2, Verdict.NOT_REPRODUCED),
        (judging.majority, 1, Verdict.CONTRADICTED), (judging.always, 4, Verdict.REPRODUCED),
        (judging.always, 3, Verdict.NOT_REPRODUCED), (judging.always, 0, Verdict.CONTRADICTED),
    ],
)  # fmt: skip
def test_verdicts_count_comparisons(judge: Callable[..., Judge], wins: int, verdict: Verdict) -> None:
    entries = [e for width in range(4) for e in cells("rmse", 1.0, 2.0 if width < wins else 0.5, width=width)]
    entries += cells("rmse", 1.0, 3.0, rival="nng")  # another rival has no say
    found, told = judge("mcd", "rmse")(entries)
    assert found == verdict
    assert f"{wins} of 4 by RMSE" in told


def structures(dataset: str, **errors: float) -> list[Entry]:
    return [
        samples.entry(method=method, dataset=dataset, metric=metric, mean=error)
        for method, error in errors.items()
        for metric in ("error", "mnll")
    ]


def test_structures_are_ranked_on_the_complete_data_where_as_many_were_run() -> None:
    subset = structures("drive-2200", whvi=0.2, GH=0.1, mcd=0.05)
    assert judging.first_of_structures(subset)[0] == Verdict.NOT_REPRODUCED
    assert judging.worst_of_structures(subset)[0] == Verdict.NOT_REPRODUCED
    found, told = judging.first_of_structures(subset + structures("drive", whvi=0.1))
    assert (found, told.startswith("on drive-2200: ")) == (Verdict.NOT_REPRODUCED, True)
    complete = subset + structures("drive", whvi=0.1, GH=0.2, mcd=0.05)
    for judge in (judging.first_of_structures, judging.worst_of_structures):
        found, told = judge(complete)
        assert (found, told.startswith("on drive: ")) == (Verdict.REPRODUCED, True)
    assert judging.always("mcd", "error", "mnll")(complete)[0] == Verdict.CONTRADICTED
    assert judging.always("mcd", "error")(structures("drive", whvi=0.1) + subset)[1].startswith("on drive-2200")


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [((2.0, 3.0), Verdict.REPRODUCED), ((2.0, 0.5), Verdict.NOT_REPRODUCED), ((0.5, 0.5), Verdict.CONTRADICTED)],
)
def test_the_lowest_on_yacht_is_looked_for_where_rivals_were_run(theirs: tuple[float, float], verdict: Verdict) -> None:
    entries = [e for width, mean in zip((64, 128), theirs, strict=True) for e in cells("mnll", 1.0, mean, width=width)]
    entries.append(samples.entry(metric="mnll", mean=9.0, width=512))  # alone, so it says nothing
    found, told = judging.lowest_at_all_widths(entries)
    assert found == verdict
    assert told.count(" with ") == 2
    assert judging.lowest_at_all_widths(entries[-1:])[0] == Verdict.OPEN


def test_the_protocol_gives_the_papers_numbers_where_none_is_worse() -> None:
    near = samples.entry(metric="rmse_of_samples", mean=0.8)
    worse = samples.entry(metric="expected_nll", mean=0.9)
    better = samples.entry(metric="expected_nll", mean=0.1)
    assert judging.printed_recipe([near, better])[0] == Verdict.REPRODUCED
    found, told = judging.printed_recipe([near, worse, better])
    assert found == Verdict.NOT_REPRODUCED
    assert told == "of 3 numbers of WHVI 1 are within one std of the paper's, 1 worse, 1 better"


def test_rows_follow_the_numbers() -> None:
    verdicts = {
        row[0].text: row[2].text for row in claims_table([shown("uci-regression", *cells("rmse", 1.0, 2.0))]).rows
    }
    assert verdicts["WHVI outperforms MCD on the majority of datasets"] == "reproduced"
    assert verdicts["WHVI outperforms NNG on the majority of datasets"] == "not computed yet"
