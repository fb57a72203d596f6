"""A file that is damaged, foreign or hostile is refused at once with a CheckpointError, and nothing in it is run."""

import hashlib
import json
import os
import pickle
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from whvi.errors import CheckpointError
from whvi.io import checkpoint

STEP = 2
JSON, TENSORS = f"step-{STEP:08d}.json", f"step-{STEP:08d}.safetensors"
Damage = Callable[[Path], Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two small checkpoints; the tests damage the second."""
    for step in (STEP - 1, STEP):
        checkpoint.save(tmp_path / "run", step, {"w": torch.full((3,), step), "b": torch.tensor(0.5)}, {"loss": 0.25})
    assert checkpoint.load(tmp_path / "run").step == STEP
    return tmp_path / "run"


def canonical(document: object) -> bytes:
    """Written here anew, so that a fault of the library is not repeated by its test."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def forge(folder: Path, entry: dict[str, Any] | None = None, drop: str = "", **changes: Any) -> None:
    """Change fields of the JSON and make its checksum right again, as an enemy could."""
    document = json.loads((folder / JSON).read_bytes())
    del document["sha256"]
    document["tensors"].update(entry or {})
    document.update(changes)
    document.pop(drop, None)
    sha256 = {} if drop == "sha256" else {"sha256": hashlib.sha256(canonical(document)).hexdigest()}
    (folder / JSON).write_bytes(canonical({**sha256, **document}))


def forge_tensors(folder: Path, data: bytes) -> None:
    """Put other bytes in place of the tensors and make all checksums right again."""
    (folder / TENSORS).write_bytes(data)
    forge(folder, {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})


def header(text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + data


def header_of(dtype: str, shape: list[int], start: int, end: int, data: bytes = b"\x00" * 4) -> bytes:
    return header(canonical({"x": {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}}), data)


def write(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data)


def cut(name: str, part: float) -> Damage:
    def damage(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(part * len(data))])

    return damage


def instead(name: str, make: Callable[[Path], Any]) -> Damage:
    """Put something that is not a file in place of one."""

    def damage(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return damage


def torch_save(name: str) -> Damage:
    return lambda folder: torch.save({"x": torch.ones(3)}, folder / name)


def swap_tensors(folder: Path) -> None:
    older = folder / f"step-{STEP - 1:08d}.safetensors"
    assert older.stat().st_size == (folder / TENSORS).stat().st_size
    (folder / TENSORS).write_bytes(older.read_bytes())


def copy_older(folder: Path) -> None:
    """The JSON of the step before under this name: all of its checksums are right."""
    (folder / JSON).write_bytes((folder / f"step-{STEP - 1:08d}.json").read_bytes())


def lead_out(folder: Path) -> None:
    """A path out of the folder, to a file that is there and has the right checksum."""
    data = (folder / TENSORS).read_bytes()
    (folder.parent / "x.safetensors").write_bytes(data)
    forge(folder, {"file": "../x.safetensors"})


def add_space(folder: Path) -> None:
    document = json.loads((folder / JSON).read_bytes())
    (folder / JSON).write_text(json.dumps(document, sort_keys=True, indent=1))


def add_byte(folder: Path) -> None:
    (folder / TENSORS).write_bytes((folder / TENSORS).read_bytes() + b"\x00")


def double_key(folder: Path) -> None:
    data = (folder / JSON).read_bytes()
    (folder / JSON).write_bytes(data.replace(b'"step":2,', b'"step":1,"step":2,'))


NOISE = random.Random(0).randbytes(4096)
HTML = b"<!DOCTYPE html><html><body>404 Not Found</body></html>"
HUGE = struct.pack("<Q", 2**63) + b"{}"
WANTED = "must be"

MALFORMED: dict[str, tuple[Damage, str]] = {
    "json empty": (write(JSON, b""), "cannot be read as a checkpoint"),
    "json truncated": (cut(JSON, 0.5), "cannot be read as a checkpoint"),
    "json lacks its last byte": (cut(JSON, 0.999), "cannot be read as a checkpoint"),
    "json is a pickle": (write(JSON, pickle.dumps({"step": STEP})), "cannot be read as a checkpoint"),
    "json is a torch.save": (torch_save(JSON), "cannot be read as a checkpoint"),
    "json is noise": (write(JSON, NOISE), "cannot be read as a checkpoint"),
    "json is zeros": (write(JSON, bytes(400)), "cannot be read as a checkpoint"),
    "json is a page": (write(JSON, HTML), "cannot be read as a checkpoint"),
    "json is bad UTF-8": (write(JSON, b'{"format":"\xff\xfe"}'), "cannot be read as a checkpoint"),
    "json is UTF-16": (write(JSON, '{"a":1}'.encode("utf-16")), "cannot be read as a checkpoint"),
    "json is laid out anew": (add_space, "not in the form that whvi writes"),
    "json has a key twice": (double_key, "not in the form that whvi writes"),
    "json nested 100,000 deep": (write(JSON, b"[" * 100_000 + b"]" * 100_000), "nested more than 64 deep"),
    "json nested 500 deep": (write(JSON, b'{"a":' * 500 + b"1" + b"}" * 500), "nested more than 64 deep"),
    "json is a list": (write(JSON, b"[1,2]"), "must hold a JSON object, got list"),
    "json is null": (write(JSON, b"null"), "must hold a JSON object, got NoneType"),
    "json of another program": (write(JSON, b'{"name":"left-pad","version":"1.0.0"}'), "'whvi checkpoint', got None"),
    "json has a huge number": (write(JSON, b"1" * 10_000), "cannot be read as a checkpoint"),
    "json is a folder": (instead(JSON, Path.mkdir), "must be a regular file"),
    "json is a pipe": (instead(JSON, os.mkfifo), "must be a regular file"),
    "json is a device": (instead(JSON, lambda path: path.symlink_to("/dev/zero")), "must be a regular file"),
    "json is a loop": (instead(JSON, lambda path: path.symlink_to(path.name)), "can be opened"),
    "json is a dead link": (instead(JSON, lambda path: path.symlink_to("nowhere")), "can be opened"),
    "json is enormous": (lambda folder: os.truncate(folder / JSON, 1 << 33), "but a checkpoint has at most"),
    "state missing": (lambda folder: forge(folder, drop="state"), "got format, sha256, step, tensors, vers"),
    "checksum missing": (lambda folder: forge(folder, drop="sha256"), "got format, state, step"),
    "field too many": (lambda folder: forge(folder, extra=1), "got extra, format"),
    "step is a string": (lambda folder: forge(folder, step="2"), "step must be int, got str"),
    "step is true": (lambda folder: forge(folder, step=True), "step must be int, got bool"),
    "step is a float": (lambda folder: forge(folder, step=2.0), "step must be int, got float"),
    "state is a list": (lambda folder: forge(folder, state=[]), "state must be dict, got list"),
    "tensors is a string": (lambda folder: forge(folder, tensors="x"), "tensors must be dict, got str"),
    "format of another": (lambda folder: forge(folder, format="other"), "must be 'whvi checkpoint', got 'other'"),
    "version 99": (lambda folder: forge(folder, version=99), "written by a newer whvi, in version 99, .*upgrade whvi"),
    "version 0": (lambda folder: forge(folder, version=0), "the version must be 1, got 0"),
    "version is a string": (lambda folder: forge(folder, version="1"), "the version must be 1, got '1'"),
    "version is true": (lambda folder: forge(folder, version=True), "the version must be 1, got True"),
    "another step": (lambda folder: forge(folder, step=3), "the step must be 2, got 3"),
    "the step before, renamed": (copy_older, "the step must be 2, got 1"),
    "checksum too short": (lambda folder: forge(folder, {"sha256": "abc"}), "64 hexadecimal digits"),
    "checksum in capitals": (lambda folder: forge(folder, {"sha256": "A" * 64}), "64 hexadecimal digits"),
    "checksum of another": (lambda folder: forge(folder, {"sha256": "0" * 64}), "the sha256 must be .*, got"),
    "size is negative": (lambda folder: forge(folder, {"bytes": -1}), "the size must be -1"),
    "path out of the folder": (lead_out, "must be 'step-00000002.safetensors', got '../x.safetensors'"),
    "absolute path": (lambda folder: forge(folder, {"file": "/etc/passwd"}), "got '/etc/passwd'"),
    "file of the step before": (lambda folder: forge(folder, {"file": "step-00000001.safetensors"}), WANTED),
    "tensors missing": (lambda folder: (folder / TENSORS).unlink(), "can be opened"),
    "tensors empty": (write(TENSORS, b""), "the size must be 148, got 0"),
    "tensors truncated": (cut(TENSORS, 0.5), "the size must be"),
    "tensors lack their last byte": (cut(TENSORS, 0.999), "the size must be"),
    "tensors have a byte more": (add_byte, "the size must be"),
    "tensors of another checkpoint": (swap_tensors, "the sha256 must be"),
    "tensors are a page": (write(TENSORS, HTML), "the size must be"),
    "tensors are noise": (write(TENSORS, NOISE), "the size must be"),
    "tensors are a folder": (instead(TENSORS, Path.mkdir), "must be a regular file"),
    "tensors are a pipe": (instead(TENSORS, os.mkfifo), "must be a regular file"),
    "tensors are a loop": (instead(TENSORS, lambda path: path.symlink_to(path.name)), "can be opened"),
    "tensors are enormous": (lambda folder: os.truncate(folder / TENSORS, 1 << 40), "got 1099511627776"),
}

FORGED: dict[str, bytes] = {
    "empty": b"",
    "noise": NOISE,
    "page": HTML,
    "pickle": pickle.dumps({"x": 1}),
    "header of 2^63 bytes": HUGE,
    "header past the end": struct.pack("<Q", 1000) + b"{}",
    "header is no JSON": header(b"abcdefgh"),
    "header is a list": header(b"[1,2,3] "),
    "header nested deep": header(b'{"a":' * 50_000),
    "header is bad UTF-8": header(b'{"\xff":1}'),
    "unknown dtype": header_of("F7", [1], 0, 4),
    "dtype that torch lacks": header_of("F8_E8M0", [4], 0, 4),
    "shape larger than the data": header_of("F32", [2], 0, 4),
    "shape overflows": header_of("F32", [2**62, 2**62], 0, 4),
    "empty, but of a shape that overflows": header_of("F32", [0, 2**63], 0, 0, b""),
    "negative shape": header_of("F32", [-1], 0, 4),
    "offsets past the end": header_of("F32", [2], 0, 8),
    "offsets turned round": header_of("F32", [1], 4, 0),
    "hole before the data": header_of("F32", [1], 4, 8, b"\x00" * 8),
    "data that nobody owns": header_of("F32", [1], 0, 4, b"\x00" * 8),
}


def refused(folder: Path) -> str:
    """The message with which the latest checkpoint is refused, in under a second of processor time."""
    start = time.process_time()  # what else runs on the machine does not count
    with pytest.raises(CheckpointError) as caught:
        checkpoint.latest(folder)
    assert time.process_time() - start < 1.0
    message = str(caught.value)
    assert len(message) < 1000
    assert "\n" not in message
    return message


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_file_is_refused_and_the_way_out_works(folder: Path, kind: str) -> None:
    damage, expected = MALFORMED[kind]
    damage(folder)
    with pytest.raises(CheckpointError, match=expected):
        checkpoint.load(folder, STEP)
    message = refused(folder)
    assert f"{folder / JSON} " in message or f"{folder / TENSORS} " in message
    assert message.endswith(f"; remove {JSON} and {TENSORS} to resume from step {STEP - 1}")
    for name in (JSON, TENSORS):
        path = folder / name
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    found = checkpoint.latest(folder)
    assert found is not None
    assert found.step == STEP - 1


@pytest.mark.parametrize("kind", FORGED)
def test_bad_tensors_under_right_checksums_are_refused(folder: Path, kind: str) -> None:
    forge_tensors(folder, FORGED[kind])
    assert f"{TENSORS} is undamaged, but it is not a safetensors file that can be read" in refused(folder)


def test_forgeries_are_refused_for_their_content_alone(folder: Path) -> None:
    """The tools of this file make a checkpoint that is taken when nothing is wrong with it."""
    forge(folder, state={"loss": 0.5})
    forge_tensors(folder, safetensors.torch.save({"x": torch.ones(2)}))
    found = checkpoint.load(folder)
    assert found.state == {"loss": 0.5}
    assert found.tensors["x"].tolist() == [1.0, 1.0]
    forge_tensors(folder, header_of("F32", [1], 0, 4))
    assert checkpoint.load(folder).tensors["x"].tolist() == [0.0]


class Bomb:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", [JSON, TENSORS])
@pytest.mark.parametrize("dump", [pickle.dump, torch.save])
def test_pickle_is_never_run(folder: Path, name: str, dump: Callable[[object, Any], None]) -> None:
    crater = folder.parent / "crater"
    with (folder / name).open("wb") as file:
        dump(Bomb(crater), file)
    if name == TENSORS:
        forge_tensors(folder, (folder / TENSORS).read_bytes())
    refused(folder)
    assert not crater.exists()
    pickle.loads(pickle.dumps(Bomb(crater)))  # the bomb is a live one
    assert crater.exists()


@pytest.mark.parametrize("name", [JSON, TENSORS])
def test_every_flipped_byte_is_seen(tmp_path: Path, name: str) -> None:
    """In each byte one bit, the bit between small and capital letters, and all bits."""
    checkpoint.save(tmp_path, STEP, {"w": torch.tensor([1.0, -0.0]), "n": torch.tensor(3)}, {"best": float("inf")})
    data = bytearray((tmp_path / name).read_bytes())
    missed = []
    for index in range(len(data)):
        for mask in (1 << index % 8, 0x20, 0xFF):
            data[index] ^= mask
            (tmp_path / name).write_bytes(data)
            data[index] ^= mask
            try:
                checkpoint.load(tmp_path)
            except CheckpointError:
                continue
            missed.append((index, mask))
    assert not missed
    (tmp_path / name).write_bytes(data)
    assert checkpoint.load(tmp_path).step == STEP


@pytest.mark.parametrize("name", [JSON, TENSORS])
def test_every_length_but_the_right_one_is_seen(tmp_path: Path, name: str) -> None:
    checkpoint.save(tmp_path, STEP, {"n": torch.tensor(3)}, {})
    data = (tmp_path / name).read_bytes()
    for size in range(len(data)):
        (tmp_path / name).write_bytes(data[:size])
        with pytest.raises(CheckpointError):
            checkpoint.load(tmp_path)


def test_without_an_intact_older_checkpoint_the_message_says_so(folder: Path) -> None:
    for step in (STEP - 1, STEP):
        (folder / f"step-{step:08d}.safetensors").write_bytes(b"")
    message = refused(folder)
    assert "no older checkpoint is intact: restore from a copy, or remove" in message
    assert message.endswith("step-00000001.json and step-00000001.safetensors to start anew")


def test_older_damage_is_named_with_the_newer_one(folder: Path) -> None:
    checkpoint.save(folder, 3, {}, {}, keep=3)
    for step in (2, 3):
        (folder / f"step-{step:08d}.safetensors").write_bytes(b"?")
    message = refused(folder)
    names = [f"step-{step:08d}.{kind}" for step in (3, 2) for kind in ("json", "safetensors")]
    assert message.endswith(f"remove {' and '.join(names)} to resume from step 1")


def test_damage_of_the_older_does_not_hinder_the_latest(folder: Path) -> None:
    (folder / "step-00000001.json").write_bytes(b"")
    assert checkpoint.load(folder).step == STEP
    with pytest.raises(CheckpointError, match="no older checkpoint is intact"):
        checkpoint.load(folder, STEP - 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", [JSON, TENSORS])
def test_file_without_permission_is_refused(folder: Path, name: str) -> None:
    (folder / name).chmod(0)
    assert "Permission denied" in refused(folder)
