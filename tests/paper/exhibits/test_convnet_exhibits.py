"""Exhibits of the convolutional networks: they ask for the same records, and say what these say."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from whvi.errors import ArgumentError
from whvi.page import check_svg
from whvi_paper.blocks import Figure, Table, Tone
from whvi_paper.exhibits import convnets, find, out_of_distribution, reliability, show
from whvi_paper.images.shifts import SHIFTS
from whvi_paper.report import markdown, terminal_tables
from whvi_paper.report.standing import tone
from whvi_paper.runner import run
from whvi_paper.store import Record, Store, name_of

MODULES = (convnets, reliability, out_of_distribution)
PAPER = {(job.inputs[0]["model"], job.inputs[0]["method"]): job.inputs[0] for job in convnets.jobs("recipe")}


def record(model: str, method: str, error: float, mnll: float, **inputs: Any) -> Record:
    """As a run of the paper's protocol would leave it; error on changed images is twice that of the others."""
    found = {**PAPER.get((model, method), {}), "model": model, "method": method, **inputs}
    shifts = {
        kind: {"auroc_entropy": 0.9 - 0.1 * place, "auroc_mutual_information": 0.5 + 0.1 * place, "error": 2 * error}
        for place, kind in enumerate(SHIFTS)
    }
    del shifts["noise"]["error"]
    return {
        "name": name_of(found),
        "inputs": found,
        "results": {
            "metrics": {"error": error, "mnll": mnll, "ece": 0.04, "brier": 0.2},
            "reliability": [[0.5, 0.4, 1000], [0.9, 1.0, 3000]],
            "shifts": shifts,
            "parameters": 2310996,
            "precision": "full" if method == "nng" else "bf16",
        },
        "cpu_seconds": 3600.0,
        "failures": 0,
    }


RECORDS = [
    record("alexnet", "mcd", 0.1331, 0.95),
    record("alexnet", "whvi", 0.1356, 0.6165),
    record("vgg16", "whvi", 0.12, 0.5),
    record("vgg16", "nng", 0.14, 0.6),
]


def texts(table: object) -> list[list[str]]:
    assert isinstance(table, Table)
    return [[cell.text for cell in row] for row in table.rows]


def test_paper_protocol_keeps_its_records() -> None:
    """Hours of training are stored under these names."""
    names = {key: name_of(PAPER[key]) for key in product(("alexnet", "vgg16", "resnet18"), ("whvi", "mcd"))}
    assert names == {
        ("alexnet", "whvi"): "2cd9846a89245eb8",
        ("alexnet", "mcd"): "8e94a0c434a4bce6",
        ("vgg16", "whvi"): "f675f2fc2536833e",
        ("vgg16", "mcd"): "9c134413b8d950c4",
        ("resnet18", "whvi"): "3c8522174d5830d2",
        ("resnet18", "mcd"): "6f195a04904b74da",
    }


@pytest.mark.parametrize("profile", ["recipe", "quick", "smoke"])
def test_all_exhibits_ask_for_the_same_records(profile: str) -> None:
    wanted = [(job.exhibit, *job.inputs) for job in convnets.jobs(profile)]
    assert len({name_of(inputs) for _, inputs in wanted}) == len(wanted)
    for module in MODULES:
        assert [(job.exhibit, *job.inputs) for job in module.jobs(profile)] == wanted
    with pytest.raises(ArgumentError, match="paper, quick, smoke"):
        module.jobs("fast")


def test_methods_of_a_network_differ_in_the_method_alone() -> None:
    """But for noisy K-FAC, which has rates of its own."""
    for (model, method), inputs in PAPER.items():
        other = dict(PAPER[model, "whvi"], method=method)
        if method == "nng":
            own = inputs["configuration"]
            assert own.items() >= {"schedule": "one-cycle", "batch_size": 256, "precision": "full"}.items()
            other["configuration"] = own
        assert inputs == other


def test_numbers_stand_beside_the_papers() -> None:
    shown = convnets.show(RECORDS)
    found = {(entry.model, entry.method, entry.metric): entry for entry in shown.entries}
    assert {key[0] for key in found} == {"alexnet", "vgg16"}
    ours, mnll = found["alexnet", "whvi", "error"], found["alexnet", "whvi", "mnll"]
    assert (ours.mean, ours.paper_mean, ours.paper_std, ours.n) == (0.1356, 0.1356, None, 1)
    assert (ours.parameters, ours.cpu_seconds, ours.records) == (2310996, 3600.0, (RECORDS[1]["name"],))
    assert (tone(ours), tone(mnll)) == (Tone.BETTER, Tone.WORSE)  # 0.6165 and 0.6164
    assert tone(found["alexnet", "mcd", "error"]) is Tone.WORSE  # 13.31 % and 13.30 %
    assert (found["vgg16", "mfg", "mnll"].n, found["vgg16", "mfg", "mnll"].paper_mean) == (0, 0.6443)
    assert ("vgg16", "mfg", "ece") not in found
    assert tone(found["vgg16", "whvi", "ece"]) is Tone.PLAIN


def test_table_is_the_papers_with_ours_and_the_best() -> None:
    rows, best = (texts(block) for block in convnets.show(RECORDS).blocks)
    assert [row[0] for row in rows[:4]] == ["VGG16, WHVI", "VGG16, MCD", "VGG16, MFG", "VGG16, NNG"]
    assert [row[0] for row in rows[4:]] == ["AlexNet, WHVI", "AlexNet, NF-WHVI", "AlexNet, MCD", "AlexNet, NNG"]
    assert rows[0] == [
        "VGG16, WHVI", "0.1200\npaper 0.1285\n-0.0085", "0.5000\npaper 0.6995\n-0.1995", "0.0400", "2,310,996",
        "10 + 6", "1 h 0 min",
    ]  # fmt: skip
    assert rows[1] == ["VGG16, MCD", "–\npaper 0.2147", "–\npaper 0.8213", "–", "–", "–", "–"]
    assert best == [
        ["VGG16", "0.1200\npaper 0.1285\n-0.0085\nWHVI", "0.5000\npaper 0.6374\n-0.1374\nNNG"],
        ["AlexNet", "0.1356\npaper 0.1272\n+0.0084\nNF-WHVI", "0.6165\npaper 0.6164\n+0.0001\nWHVI"],
    ]


def test_text_says_what_was_run() -> None:
    text = convnets.show(RECORDS).text
    for words in ("VGG16 10 + 6, AlexNet 60", "batches of 256", "one-cycle", "0.003 of Adam", "natural gradients"):
        assert words in text
    for words in ("mean of 16 functions", "AlexNet has no parameters", "in full precision VGG16 with NNG. CPU times"):
        assert words in text
    assert "in bf16 precision VGG16 with WHVI, AlexNet with WHVI, AlexNet with MCD;" in text
    assert "All are in bf16 precision." in convnets.show(RECORDS[:2]).text
    assert "natural" not in convnets.show(RECORDS[:2]).text


def test_other_data_are_not_compared() -> None:
    inputs = {**convnets.jobs("smoke")[0].inputs[0]}
    small = record(inputs.pop("model"), inputs.pop("method"), 0.8, 2.2, **inputs)
    shown = convnets.show([small])
    assert {(entry.metric, entry.paper_mean) for entry in shown.entries} == {(m, None) for m in convnets.METRICS}
    assert len(shown.blocks) == 1


def test_reliability_of_each_network() -> None:
    shown = reliability.show(RECORDS)
    figure, table = shown.blocks
    assert isinstance(figure, Figure)
    check_svg(figure.svg)
    for words in ("VGG16", "AlexNet", "WHVI, ECE 0.040", "NNG, ECE 0.040", "confidence"):
        assert words in figure.svg
    assert texts(table)[2] == ["AlexNet, WHVI", "0.0400", "0.2000", "0.8000", "0.8500", "-0.0500"]
    assert {entry.metric for entry in shown.entries} == {"ece", "brier"}


def test_images_of_another_kind() -> None:
    assert tuple(out_of_distribution.KINDS) == tuple(SHIFTS)
    shown = out_of_distribution.show(RECORDS)
    figure, detection, errors = shown.blocks
    assert isinstance(figure, Figure)
    check_svg(figure.svg)
    expected = ["0.900 / 0.500", "0.800 / 0.600", "0.700 / 0.700", "0.600 / 0.800", "0.500 / 0.900"]
    assert texts(detection)[0] == ["VGG16, WHVI", *expected]
    assert texts(errors)[0] == ["VGG16, WHVI", "0.120", *["0.240"] * 4]
    assert "not in the paper" in shown.source
    found = {entry.metric: entry.mean for entry in shown.entries if (entry.model, entry.method) == ("vgg16", "whvi")}
    assert len(found) == 3 * len(SHIFTS) - 1
    assert (found["auroc_entropy rotated"], found["error faded"]) == (0.8, 0.24)


def test_a_network_that_was_not_shown_other_images_is_left_out() -> None:
    unseen = record("resnet18", "whvi", 0.1, 0.3)
    unseen["results"]["shifts"] = {}
    assert out_of_distribution.show([*RECORDS, unseen]).entries == out_of_distribution.show(RECORDS).entries
    assert out_of_distribution.show([unseen]).blocks == []
    assert not any(PAPER["resnet18", method].get("shifts", True) for method in ("whvi", "mcd"))


def test_a_smoke_run_is_shown_by_all(tmp_path: Path) -> None:
    from rich.console import Console

    jobs = find("convnets").jobs("smoke")
    summary = run(jobs, Store(tmp_path), work=tmp_path / "work", backend="sequential")
    assert (summary.done, summary.failed) == (len(jobs), 0)
    shown = [show(module.NAME, Store(tmp_path), "smoke") for module in MODULES]
    assert [one.missing for one in shown] == [0, 0, 0]
    assert "Profile smoke" in shown[0].text
    page = markdown(shown, tmp_path / "figures")
    assert all(one.title in page for one in shown)
    assert len(list((tmp_path / "figures").iterdir())) == 2
    console = Console(width=120, record=True, quiet=True)
    console.print(*terminal_tables(shown[0].entries))
