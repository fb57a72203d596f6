"""``whvi train``, called as a user calls it, alone and by torchrun."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whvi import cli
from whvi.io import checkpoint, packing
from whvi_paper.images.training import ImageTraining

SMALL = ("simple-cnn", "--data", "synthetic-images", "--epochs", "2", "--batch-size", "50", "--precision", "full")


class Terminal:
    """Runs ``whvi train ...`` in this process and in its own folder, and keeps what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys

    def __call__(self, *arguments: str) -> int:
        self.monkeypatch.setattr(sys, "argv", ["whvi", "train", *arguments])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        self.out, self.err = self.capsys.readouterr()
        return int(leaving.value.code or 0)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return Terminal(monkeypatch, capsys)


def test_trains_measures_and_goes_on(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is stopped after an epoch ends with the weights of one that is not."""
    assert terminal(*SMALL) == 0
    folder = Path("out/train/simple-cnn-whvi-epochs2-seed0")
    assert f"weights: {folder / 'weights.safetensors'}" in terminal.out
    for word in ("error", "MNLL", "ECE", "parameters", "images/s"):
        assert word in terminal.out
    weights = (folder / "weights.safetensors").read_bytes()
    assert len(packing.unpack(weights)) > 4
    assert checkpoint.steps(folder / "checkpoint") == [4, 8]

    measure = ImageTraining.measure

    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ImageTraining, "measure", interrupt)  # at the look after the first epoch
    assert terminal(*SMALL, "--out", "stopped") == 130
    assert terminal.err.startswith("interrupted")
    assert checkpoint.steps(Path("stopped/checkpoint")) == [4]
    monkeypatch.setattr(ImageTraining, "measure", measure)
    assert terminal(*SMALL, "--out", "stopped") == 0
    assert Path("stopped/weights.safetensors").read_bytes() == weights
    assert terminal(*SMALL, "--out", "stopped") == 0  # nothing is left to do
    assert Path("stopped/weights.safetensors").read_bytes() == weights

    assert terminal(*SMALL, "--out", "stopped", "--seed", "1") == 2
    assert "belongs to another run: seed was 0 and is 1" in terminal.err
    assert terminal.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nonsense",), "model 'nonsense' is unknown; use one of: alexnet"),
        (("simple-cnn", "--treatment", "nonsense"), "treatment 'nonsense' is unknown; use one of: dense, "),
        (
            ("simple-cnn", "--treatment", "mcd+nng", "--precision", "bf16"),
            "noisy K-FAC, which trains this model, has no ",
        ),
        (("simple-cnn", "--schedule", "nonsense"), "--schedule 'nonsense' is unknown; use one of: one-cycle"),
        (("simple-cnn", "--precision", "nonsense"), "--precision 'nonsense' is unknown; use one of: auto"),
        (("simple-cnn", "--data", "nonsense"), "dataset 'nonsense' is unknown; did you mean "),
        (("simple-cnn", "--data", "yacht"), "yacht has no images; use one of: cifar10"),
        (("simple-cnn", "--epochs", "0"), "--epochs must be 1 or more, got 0"),
        (("simple-cnn", "--batch-size", "-1"), "--batch-size must be 1 or more, got -1"),
        ((*SMALL, "--rate", "-1"), "learning_rate must be positive and finite, got -1.0"),
        ((*SMALL, "--out", "file/inside"), "Not a directory: 'file/inside'"),
    ],
)
def test_mistakes_get_one_line(terminal: Terminal, arguments: tuple[str, ...], words: str) -> None:
    Path("file").touch()
    assert terminal(*arguments) == 2
    assert terminal.err.removeprefix("whvi: ").removeprefix("[Errno 20] ").startswith(words)
    assert terminal.err.count("\n") == 1


# Each process keeps the weights that it ends with, beside those that the first one writes for all.
EACH_KEEPS_ITS_OWN = """
import os
from whvi import cli
from whvi_paper.images.training import ImageTraining

plain = ImageTraining.fit


def fit(self, folder, *arguments, **options):
    found = plain(self, folder, *arguments, **options)
    self.save(folder / os.environ["RANK"])
    return found


ImageTraining.fit = fit
cli.main()
"""


@pytest.mark.slow
def test_two_processes_of_torchrun(tmp_path: Path) -> None:
    """Both train and end with the same weights; one speaks."""
    torchrun = Path(sys.executable).with_name("torchrun")
    command = [torchrun, "--nproc-per-node", "2", "--no-python", sys.executable, "-c", EACH_KEEPS_ITS_OWN, "train"]
    options = (*SMALL, "--epochs", "1", "--out", str(tmp_path))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("images/s") == done.stdout.count("weights: ") == 1
    last = checkpoint.latest(tmp_path / "checkpoint")
    assert last is not None
    assert (last.step, last.state["identity"]["processes"]) == (4, 2)
    weights = (tmp_path / "weights.safetensors").read_bytes()
    assert (tmp_path / "0").read_bytes() == (tmp_path / "1").read_bytes() == weights
