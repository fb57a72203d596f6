"""Results on disk: one JSON file for each set of inputs, named by their hash, written in one step.

What is there is not computed again. Runs that failed or were cancelled are kept beside the good ones and counted.
"""

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import whvi
from whvi.errors import ArgumentError
from whvi.io import atomic, canonical
from whvi_paper.jobs import Inputs, Job, Results

Record = Mapping[str, Any]
"""``name``, ``exhibit``, ``status``, ``inputs``, ``results``, times, versions; as it is in the file."""
_PACKAGES = ("whvi", "torch", "numpy")
_HOMES = (Path(whvi.__file__).parent, Path(__file__).parent)
_SOURCES = (".py", ".cpp", ".h")
_RUNS, _FAILED = "runs", "failed"


def name_of(inputs: Inputs) -> str:
    """16 hexadecimal digits of the SHA-256 of the inputs in canonical JSON.

    Law: equal inputs, equal names, in whatever order their keys were given.

    >>> name_of({"width": 64, "seed": 0}) == name_of({"seed": 0, "width": 64})
    True
    """
    return hashlib.sha256(canonical.dump(dict(inputs), name="inputs")).hexdigest()[:16]


class Store:
    """The records under a folder: ``runs/<exhibit>/<name>.json``, and ``failed/<exhibit>/<name>-<count>.json``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = versions()  # now: files may change while jobs run

    def path(self, exhibit: str, inputs: Inputs) -> Path:
        """Where the record of these inputs is, or would be."""
        return self.folder / _RUNS / exhibit / f"{name_of(inputs)}.json"

    def get(self, exhibit: str, inputs: Inputs) -> Record | None:
        """The record of these inputs, or None."""
        path = self.path(exhibit, inputs)
        return read(path) if path.exists() else None

    def missing(self, job: Job) -> list[Inputs]:
        """The inputs of a job that have no record; ArgumentError if one is damaged, since it may be published."""
        return [inputs for inputs in job.inputs if self.get(job.exhibit, inputs) is None]

    def records(self, jobs: Iterable[Job]) -> list[Record]:
        """All records of some jobs that are there; each with its number of ``failures`` before."""
        failures: dict[str, Counter[str]] = {}
        found: list[Record] = []
        for job in jobs:
            counts = failures.setdefault(job.exhibit, self.failures(job.exhibit))
            records = (self.get(job.exhibit, inputs) for inputs in job.inputs)
            found += [{**record, "failures": counts[record["name"]]} for record in records if record is not None]
        return found

    def keep(self, job: Job, inputs: Sequence[Inputs], results: Sequence[Results], wall: float, cpu: float) -> None:
        """Write the records of inputs that were computed together; times are shared out evenly."""
        for one, found in zip(inputs, results, strict=True):
            body = {"results": dict(found), "wall_seconds": wall / len(inputs), "cpu_seconds": cpu / len(inputs)}
            _write(self.path(job.exhibit, one), self._record(job, one, "done", body))

    def keep_failure(self, job: Job, inputs: Sequence[Inputs], status: str, reason: str) -> None:
        """Write down that a run came to nothing: ``status`` is "failed" or "cancelled"."""
        for one in inputs:
            folder = self.folder / _FAILED / job.exhibit
            count = sum(1 for _ in folder.glob(f"{name_of(one)}-*.json"))
            _write(folder / f"{name_of(one)}-{count}.json", self._record(job, one, status, {"reason": reason}))

    def failures(self, exhibit: str) -> Counter[str]:
        """How often the runs of an exhibit came to nothing, by name."""
        folder = self.folder / _FAILED / exhibit
        return Counter(path.stem.rpartition("-")[0] for path in folder.glob("*-*.json"))

    def failed(self, jobs: Iterable[Job]) -> int:
        """How many runs of some jobs came to nothing, whether or not a later one was done."""
        names = {(job.exhibit, name_of(inputs)) for job in jobs for inputs in job.inputs}
        counts = {exhibit: self.failures(exhibit) for exhibit, _ in names}
        return sum(counts[exhibit][name] for exhibit, name in names)

    def _record(self, job: Job, inputs: Inputs, status: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "name": name_of(inputs),
            "exhibit": job.exhibit,
            "status": status,
            "inputs": dict(inputs),
            **body,
            "versions": self.versions,
            "finished": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def home(profile: str, out: Path = Path("out/paper")) -> Path:
    """Where records are unless a user says so: those of the paper's protocol are published, others are for a look.

    >>> home("paper").as_posix(), home("quick").as_posix()
    ('results', 'out/paper/records')
    """
    return Path("results") if profile == "paper" else out / "records"


def read(path: Path) -> Record:
    """The record in a file; ArgumentError if it is not one, or not the one that its name says."""
    try:
        record = json.loads(path.read_text())
        good = record["name"] == path.stem == name_of(record["inputs"]) and isinstance(record["results"], dict)
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentError(f"{path} is not a record ({error}); delete it, and it is computed again") from error
    if not good:
        raise ArgumentError(f"{path} is not the record of its inputs; delete it, and it is computed again")
    return dict(record)


def check_results(results: Sequence[Results], count: int) -> None:
    """Refuse what a record cannot hold: the wrong number of results, what is not JSON, inf and nan.

    >>> check_results([{"metrics": {"rmse": 0.1}}], 2)
    Traceback (most recent call last):
    whvi.errors.ArgumentError: there are 1 results for 2 sets of inputs; return one for each
    """
    if len(results) != count:
        raise ArgumentError(f"there are {len(results)} results for {count} sets of inputs; return one for each")
    _json([dict(one) for one in results])


def versions() -> dict[str, str]:
    """Of Python, of the packages that a result depends on, and of our own code, by a hash of its files."""
    code = hashlib.sha256()
    for path in sorted(path for package in _HOMES for path in package.rglob("*") if path.suffix in _SOURCES):
        code.update(f"{path.parent.name}/{path.name}\0".encode() + path.read_bytes())
    packages = {name: version(name) for name in _PACKAGES}
    return {"python": platform.python_version(), **packages, "code": code.hexdigest()[:16]}


def _write(path: Path, record: Mapping[str, Any]) -> None:
    atomic.write_text(path, _json(record) + "\n")


def _json(value: Any) -> str:
    """As people like to read it; what would come back as something else is refused."""
    canonical.dump(value, name="record")
    return json.dumps(value, indent=1, allow_nan=False)
