"""Checkpoints come back bit for bit, and a crash at any moment leaves whole ones only."""

import errno
import hashlib
import json
import math
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from whvi.errors import ArgumentError, CheckpointError, DeviceError, DtypeError, InputTypeError
from whvi.io import SavedState, checkpoint, manifest, packing
from whvi.io.lock import alone

BASE = torch.arange(24, dtype=torch.float32).reshape(4, 6)


def bits(tensor: Tensor) -> tuple[torch.dtype, tuple[int, ...], bytes]:
    """All there is to know of the values of a dense tensor."""
    plain = tensor.detach().clone(memory_format=torch.contiguous_format).resolve_neg()
    return plain.dtype, tuple(plain.shape), plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def random_bits(dtype: torch.dtype, *shape: int) -> Tensor:
    """Every bit drawn, so nan with any payload, inf and subnormal numbers are among them."""
    if dtype == torch.bool:
        return torch.randint(2, shape).bool()
    return torch.randint(256, (*shape[:-1], shape[-1] * dtype.itemsize), dtype=torch.uint8).view(dtype)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def pair(*steps: int) -> list[str]:
    return sorted(f"step-{step:08d}.{kind}" for step in steps for kind in ("json", "safetensors"))


def save(folder: Path, step: int, keep: int = 2) -> None:
    """A checkpoint whose content tells its step."""
    checkpoint.save(folder, step, {"x": torch.full((3,), step)}, {"step": step}, keep)


def holds(found: SavedState | None, step: int) -> bool:
    return found is not None and (found.step, found.state, found.tensors["x"].tolist()) == (
        step,
        {"step": step},
        [step] * 3,
    )


@pytest.mark.parametrize("dtype", sorted(packing.DTYPES, key=str), ids=str)
@pytest.mark.parametrize("shape", [(5, 64), (1,), (0,), (3, 0, 2)], ids=str)
def test_every_dtype_comes_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = random_bits(dtype, *shape)
    checkpoint.save(tmp_path, 7, {"x": tensor, "scalar": random_bits(dtype, 1)[0]}, {})
    found = checkpoint.load(tmp_path)
    assert found.step == 7
    assert bits(found.tensors["x"]) == bits(tensor)
    assert found.tensors["scalar"].shape == ()


@pytest.mark.parametrize(
    "tensor",
    [
        BASE.T,
        BASE[1:, ::2],
        BASE[0, :1].expand(5, 3),
        BASE[2],
        torch.tensor(3.5),
        torch.tensor(2**63 - 1),
        torch.nn.Parameter(torch.randn(3, 2)),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(4, dtype=torch.complex64).conj().imag,
        torch.randn(1, dtype=torch.complex64).conj().imag,
    ],
    ids=lambda tensor: "x".join(map(str, tensor.shape)),
)
def test_every_kind_of_view_comes_back(tmp_path: Path, tensor: Tensor) -> None:
    checkpoint.save(tmp_path, 1, {"x": tensor}, {})
    found = checkpoint.load(tmp_path).tensors["x"]
    assert bits(found) == bits(tensor)
    assert torch.equal(found, tensor)
    assert found.is_contiguous()
    assert not found.requires_grad


def test_tensors_that_share_memory_come_back_apart(tmp_path: Path) -> None:
    tensors = {"all": BASE, "again": BASE, "row": BASE[1], "flat": BASE.view(-1), "turned": BASE.T, "none": BASE[:0]}
    checkpoint.save(tmp_path, 1, tensors, {})
    found = checkpoint.load(tmp_path).tensors
    assert {name: bits(tensor) for name, tensor in found.items()} == {name: bits(x) for name, x in tensors.items()}
    found["all"].zero_()
    assert torch.equal(found["again"], BASE)


def test_what_was_loaded_is_as_good_as_new(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, {"c": torch.randn(37).double(), "a": torch.randn(37), "b": torch.arange(37)}, {})
    found = checkpoint.load(tmp_path).tensors
    assert list(found) == ["a", "b", "c"]
    for tensor in found.values():
        assert tensor.data_ptr() % 64 == 0
        assert tensor.add_(1).resize_(100).shape == (100,)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tensors_of_a_gpu_come_back_on_the_cpu(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, {"x": BASE.cuda(), "y": BASE.cuda().T}, {})
    found = checkpoint.load(tmp_path).tensors
    assert torch.equal(found["x"], BASE)
    assert torch.equal(found["y"], BASE.T)


def test_state_comes_back(tmp_path: Path) -> None:
    state = {"best": math.inf, "worst": -math.inf, "rate": 0.1 + 0.2, "seed": 2**64 - 1, "$float": {"λ": [None, True]}}
    checkpoint.save(tmp_path, 0, {}, {**state, "bad": math.nan, "betas": (0.9, 0.999)})
    found = checkpoint.load(tmp_path, 0)
    assert math.isnan(found.state.pop("bad"))
    assert found == (0, {}, {**state, "betas": [0.9, 0.999]})


def test_json_is_as_documented(tmp_path: Path) -> None:
    save(tmp_path, 1000)
    data = (tmp_path / "step-00001000.safetensors").read_bytes()
    document = json.loads((tmp_path / "step-00001000.json").read_bytes())
    sha256 = document.pop("sha256")
    assert document == {
        "format": "whvi checkpoint",
        "version": 1,
        "step": 1000,
        "tensors": {
            "file": "step-00001000.safetensors",
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        },
        "state": {"step": 1000},
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_same_content_gives_same_files(tmp_path: Path) -> None:
    tensors = {"b": torch.randn(3), "a": torch.randn(3).double(), "c": torch.arange(3)}
    checkpoint.save(tmp_path / "one", 1, tensors, {"a": 1, "b": 2})
    checkpoint.save(tmp_path / "two", 1, dict(sorted(tensors.items())), {"b": 2, "a": 1})
    for name in pair(1):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_last_are_kept(tmp_path: Path, keep: int) -> None:
    for step in range(0, 80, 10):
        save(tmp_path, step, keep)
        assert checkpoint.steps(tmp_path) == list(range(0, step + 1, 10))[-keep:]
    assert names(tmp_path) == pair(*checkpoint.steps(tmp_path))
    assert all(holds(checkpoint.load(tmp_path, step), step) for step in checkpoint.steps(tmp_path))


def test_steps_are_numbers_not_names(tmp_path: Path) -> None:
    for step in (99_999_999, 100_000_000, 1_000_000_000):
        save(tmp_path, step, keep=3)
    assert checkpoint.steps(tmp_path) == [99_999_999, 100_000_000, 1_000_000_000]
    assert holds(checkpoint.latest(tmp_path), 1_000_000_000)


def test_checkpoints_of_later_steps_stay(tmp_path: Path) -> None:
    for step in (1, 2, 9):
        save(tmp_path, step, keep=3)
    save(tmp_path, 3, keep=1)
    assert checkpoint.steps(tmp_path) == [3, 9]


def test_what_is_not_of_a_checkpoint_is_neither_seen_nor_removed(tmp_path: Path) -> None:
    others = ["notes.txt", "step-1.json", "step-000000001.json", "step-00000001.json.bak", "model.safetensors"]
    others += [".notes.json.0123456789abcdef.tmp", "step-000000001.safetensors", "step-0000000x.safetensors"]
    for name in others:
        (tmp_path / name).write_text("mine")
    (tmp_path / "step-00000009.safetensors").mkdir()
    assert checkpoint.latest(tmp_path) is None
    save(tmp_path, 5, keep=1)
    assert checkpoint.steps(tmp_path) == [5]
    assert names(tmp_path) == sorted([*others, *pair(5), "step-00000009.safetensors"])


def test_absent_and_empty_folders_have_no_checkpoint(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent", str(tmp_path / "a" / "b")):
        assert checkpoint.steps(folder) == []
        assert checkpoint.latest(folder) is None
        with pytest.raises(CheckpointError, match="has no checkpoint"):
            checkpoint.load(folder)


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for call in (checkpoint.steps, checkpoint.latest, checkpoint.load):
        with pytest.raises(CheckpointError, match="must be a folder"):
            call(tmp_path / "file")


def test_absent_step_names_those_that_are_there(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    with pytest.raises(CheckpointError, match="no checkpoint of step 3; choose from 1, 2"):
        checkpoint.load(tmp_path, 3)


class Crash(Exception):
    """Stands for the end of the process."""


def crash_at(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> list[int]:
    """Make the call of that number, counted from 1, and all after it raise; the list counts them."""
    original, count = getattr(os, call), [0]

    def replaced(*args: Any, **options: Any) -> Any:
        count[0] += 1
        if count[0] >= number:
            raise Crash
        return original(*args, **options)

    monkeypatch.setattr(os, call, replaced)
    return count


@pytest.mark.parametrize(("call", "number"), [("replace", 1), ("replace", 2), ("fsync", 1), ("fsync", 2), ("fsync", 3)])
def test_crash_before_the_commit_leaves_the_old_checkpoint_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    save(tmp_path, 1)
    with monkeypatch.context() as patch:
        crash_at(patch, call, number)
        with pytest.raises(Crash):
            save(tmp_path, 2)
    assert holds(checkpoint.latest(tmp_path), 1)
    assert set(names(tmp_path)) <= {*pair(1), "step-00000002.safetensors"}
    if call == "replace" and number == 2:
        assert names(tmp_path) == [*pair(1), "step-00000002.safetensors"]
    save(tmp_path, 3, keep=1)
    assert names(tmp_path) == pair(3)


def test_every_crash_of_a_save_over_the_same_step_leaves_whole_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crash at every call that changes the folder, one after another, until a save comes through."""
    for call in ("replace", "fsync", "unlink"):
        folder = tmp_path / call
        save(folder, 1)
        for number in range(1, 20):
            checkpoint.save(folder, 2, {"x": torch.zeros(3)}, {"old": True})
            with monkeypatch.context() as patch:
                count = crash_at(patch, call, number)
                with suppress(Crash):
                    save(folder, 2)
            found = checkpoint.latest(folder)
            assert holds(found, 1) or holds(found, 2) or (found is not None and found.state == {"old": True})
            if count[0] < number:
                break
        assert 1 < number < 19
        assert holds(found, 2)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_crash_while_old_checkpoints_are_removed_leaves_no_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    with monkeypatch.context() as patch:
        crash_at(patch, "unlink", number)
        with pytest.raises(Crash):
            save(tmp_path, 3, keep=1)
    found = checkpoint.steps(tmp_path)
    assert found[-1] == 3
    assert len(found) == {1: 3, 2: 2, 3: 2, 4: 1}[number]
    assert all(holds(checkpoint.load(tmp_path, step), step) for step in found)


def test_saving_the_same_again_never_takes_the_checkpoint_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1, keep=1)
    with monkeypatch.context() as patch:
        crash_at(patch, "replace", 1)
        with pytest.raises(Crash):
            save(tmp_path, 1, keep=1)
    assert holds(checkpoint.latest(tmp_path), 1)


def test_left_overs_of_a_kill_are_removed_by_the_next_save(tmp_path: Path) -> None:
    save(tmp_path, 1)
    for name in (".step-00000002.safetensors.0123456789abcdef.tmp", ".step-00000002.json.fedcba9876543210.tmp"):
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / "step-00000002.safetensors").write_bytes(b"half")
    assert holds(checkpoint.latest(tmp_path), 1)
    save(tmp_path, 3)
    assert names(tmp_path) == pair(1, 3)


KILLS = """
import os, random, signal, sys, time
import torch
from whvi.io import checkpoint

folder, last, kills = sys.argv[1], 0, 0
random.seed(0)
while kills < 20 or last < 2:  # a busy machine may not get to a second step before the first twenty
    kills += 1
    child = os.fork()
    if child == 0:
        step = last
        while True:
            step += 1
            checkpoint.save(folder, step, {"x": torch.full((20_000,), step)}, {"step": step})
    time.sleep(random.uniform(0.0, 0.06))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = checkpoint.latest(folder)
    if found is not None:
        assert found.step >= last and found.state == {"step": found.step} and (found.tensors["x"] == found.step).all()
        last = found.step
checkpoint.save(folder, last + 1, {}, {}, keep=1)
print(last, sorted(os.listdir(folder)) == sorted(path.name for path in checkpoint._paths(checkpoint.Path(), last + 1)))
"""


def test_twenty_kills_leave_whole_checkpoints(tmp_path: Path) -> None:
    run = [sys.executable, "-c", KILLS, str(tmp_path / "run")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    last, clean = done.stdout.split()
    assert int(last) > 1
    assert clean == "True"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"step": -1}, ArgumentError, "step must be at least 0, got -1"),
        ({"step": "3"}, InputTypeError, "step must be an int, got '3'"),
        ({"step": True}, InputTypeError, "step must be an int, got True"),
        ({"keep": 0}, ArgumentError, "keep must be at least 1, got 0"),
        ({"state": [1]}, InputTypeError, "state must be a dict"),
        ({"state": {"x": torch.ones(1)}}, InputTypeError, r"checkpoint\['state'\]\['x'\] is of type Tensor"),
        ({"state": {"param": {0: 1}}}, InputTypeError, "strings as keys"),
        ({"tensors": [torch.ones(1)]}, InputTypeError, "mapping from names to tensors, got list"),
        ({"tensors": {"x": [1.0]}}, InputTypeError, "got 'x' with list"),
        ({"tensors": {1: torch.ones(1)}}, InputTypeError, "got 1 with Tensor"),
        ({"tensors": {"__metadata__": torch.ones(1)}}, ArgumentError, "rename it"),
        ({"tensors": {"x": torch.ones(1, dtype=torch.complex128)}}, DtypeError, "'x' has dtype torch.complex128"),
        ({"tensors": {"x": torch.ones(1, device="meta")}}, DeviceError, "no values to save"),
        ({"tensors": {"x": torch.eye(2).to_sparse()}}, InputTypeError, "to_dense"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments: dict[str, Any] = {"step": 2, "tensors": {"x": torch.ones(1)}, "state": {}, **change}
    with pytest.raises(error, match=message):
        checkpoint.save(tmp_path / "run", **arguments)
    assert names(tmp_path) == []


def test_state_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "LIMIT", 1000)
    checkpoint.save(tmp_path, 1, {}, {"x": "a" * 500})
    with pytest.raises(ArgumentError, match="over 1000; put large parts into the tensors"):
        checkpoint.save(tmp_path, 2, {}, {"x": "a" * 1000})
    assert names(tmp_path) == pair(1)
    monkeypatch.setattr(manifest, "LIMIT", 500)
    with pytest.raises(CheckpointError, match="at most 500 of JSON"):
        checkpoint.load(tmp_path)


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    with alone(tmp_path / "new"):
        with pytest.raises(CheckpointError, match="another run is using"), alone(tmp_path / "new"):
            pass
        with alone(tmp_path / "other"):
            pass
    with alone(tmp_path / "new"):
        assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="must be a folder"), alone(tmp_path / "file"):
        pass


def test_a_file_system_without_locks_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.EBADF, "as NFS says of a folder")

    monkeypatch.setattr("fcntl.flock", refuse)
    with alone(tmp_path), alone(tmp_path):
        checkpoint.save(tmp_path, 1, {}, {})
    assert checkpoint.steps(tmp_path) == [1]
