"""The covariance figure, and the command that makes exhibits."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from whvi import cli
from whvi_paper.exhibits import EXHIBITS, covariance


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["whvi", *arguments])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    return int(leaving.value.code or 0)


@pytest.mark.parametrize("posterior", covariance.POSTERIORS)
def test_numbers_behind_the_figure_are_those_of_samples(posterior: str) -> None:
    shown = covariance.correlations(posterior)
    layer, count = covariance.make_layer(posterior), 100_000
    draw = layer.draw((count,))
    samples = torch.cat([layer.g.rsample((count,), seed=draw.seed), layer.weight(draw).mT.flatten(1)], 1).detach()
    sampled, size = samples.T.corrcoef(), covariance.SIZE
    for exact, estimate in ((shown.g, sampled[:size, :size]), (shown.weight, sampled[size:, size:])):
        error = (1 - exact.square()) / count**0.5  # of a correlation, for large samples
        assert ((estimate - exact).abs() <= 5 * error + 1e-9).all()  # 2,000 different ones: 4 is too few


def test_figure_shows_what_it_says() -> None:
    diagonal, full = (covariance.correlations(posterior) for posterior in covariance.POSTERIORS)
    assert_close(diagonal.g, torch.eye(covariance.SIZE, dtype=torch.float64))
    assert full.g.fill_diagonal_(0).abs().max() > 0.3
    index = torch.arange(covariance.SIZE)
    same = (index[:, None] ^ index).flatten()
    tied = same[:, None] == same  # the entries i, j of W with one i xor j are multiples of one number
    for matrices in (diagonal, full):
        assert_close(matrices.weight[tied].abs(), torch.ones(int(tied.sum()), dtype=torch.float64))
        assert matrices.weight[~tied].abs().max() < 1
        assert (matrices.matrix_normal - matrices.weight).abs().max() > 0.9


def test_command_writes_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "reproduce", "covariance", "--out", str(tmp_path / "new" / "folder")) == 0
    path = Path(capsys.readouterr().out.removeprefix("covariance: ").strip())
    assert path == tmp_path / "new" / "folder" / "covariance.png"
    from matplotlib.image import imread

    picture = imread(path)
    assert picture.shape[0] > 800
    red, _, blue, *_ = (picture[..., channel] for channel in range(picture.shape[2]))
    assert min((red - blue > 0.3).mean(), (blue - red > 0.3).mean()) > 0.02  # correlations of both signs


def test_unknown_exhibit_names_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "reproduce", "nonsense", "--out", str(tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert "'nonsense'" in error
    assert all(name in error for name in EXHIBITS)
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_help_has_an_example(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "reproduce", "--help") == 0
    assert "Example: whvi reproduce covariance" in capsys.readouterr().out


def test_broken_plug_in_does_not_spoil_the_other_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = EntryPoint("broken", "package_that_is_not_there:add_commands", "whvi.commands")
    monkeypatch.setattr(cli, "entry_points", lambda group: [broken])
    assert run(monkeypatch, "demo", "--help") == 0
    output = capsys.readouterr()
    assert "Example: whvi demo" in output.out
    assert output.err.startswith("whvi: the commands of package_that_is_not_there:add_commands are left out: ")
