"""``whvi summary``, called as a user calls it."""

import json

import pytest

from whvi import cli
from whvi_paper.networks import MODELS, TREATMENTS, count_parameters


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str, columns: int = 80
) -> tuple[int, str, str]:
    for name, value in {"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["whvi", "summary", *arguments])
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    return int(leaving.value.code or 0), *capsys.readouterr()


def test_a_network_under_each_treatment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal of 80 columns, with the shares that the paper states."""
    code, out, _ = run(monkeypatch, capsys, "alexnet")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[2:]}
    assert code == 0
    assert list(rows) == list(TREATMENTS)
    assert rows["dense"] == ["21,020,682", "2,251,584", "0", "23,272,266", "100.00%"]
    assert rows["whvi"] == ["59,412", "2,251,584", "0", "2,310,996", "9.93%"]
    assert rows["nf-whvi"][-2:] == ["2,366,301", "10.17%"]


def test_without_a_network_those_there_are(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(monkeypatch, capsys)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:]] == list(MODELS)
    assert "11,173,962" in out


def test_one_treatment_layer_by_layer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(monkeypatch, capsys, "vgg16", "--treatment", "whvi", "--json")
    rows = json.loads(out)
    found = count_parameters("vgg16", "whvi")
    assert code == 0
    assert [row["weight"] for row in rows[:2]] == ["32 x 3 x 3 x 3", "32 x 32 x 3 x 3"]
    assert [row["parameters"] for row in rows[:-2]] == [layer.parameters for layer in found.layers]
    assert sum(row["parameters"] for row in rows[:-1]) == rows[-1]["parameters"] == found.total
    assert rows[-3] == {
        "layer": "linear", "weight": "10 x 256", "parameters": 1044, "dense": 2570, "share_of_dense": 1044 / 2570,
    }  # fmt: skip
    assert "10 x 256" in run(monkeypatch, capsys, "vgg16", "--treatment", "whvi")[1]
    assert json.loads(run(monkeypatch, capsys, "simple-cnn", "--treatment", "mcd", "--json")[1])[-2] == {
        "layer": "other", "weight": "", "parameters": 0, "dense": 0, "share_of_dense": None,
    }  # fmt: skip


def test_json_has_the_numbers_of_the_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["treatment"]: row for row in json.loads(run(monkeypatch, capsys, "resnet18", "--json")[1])}
    assert list(rows) == list(TREATMENTS)
    for row in rows.values():
        assert row["linear"] + row["filters"] + row["other"] == row["total"]
        assert row["share_of_dense"] == row["total"] / rows["dense"]["total"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lenet"], "whvi: model 'lenet' is unknown; use one of: alexnet, "),
        (["vgg16", "--treatment", "bayes"], "whvi: treatment 'bayes' is unknown; use one of: dense, "),
        (["--treatment", "whvi"], "whvi: --treatment whvi needs a MODEL"),
    ],
)
def test_a_mistake_gives_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1
