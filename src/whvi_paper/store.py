"""Results on disk: a file of JSON lines for each exhibit, a line for each set of inputs, named by their hash.

What is there is not computed again. Runs that failed or were cancelled are kept beside the good ones and counted.
"""

import hashlib
import json
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import whvi
from whvi.errors import ArgumentError
from whvi.io import atomic, canonical
from whvi.io.lock import alone
from whvi_paper.jobs import Inputs, Job, Results

Record = Mapping[str, Any]
"""``name``, ``exhibit``, ``status``, ``inputs``, ``results``, times, versions; as it is in its line."""
Lines = list[bytes]
_PACKAGES = ("whvi", "torch", "numpy")
_HOMES = (Path(whvi.__file__).parent, Path(__file__).parent)
_SOURCES = (".py", ".cpp", ".h")
_RUNS, _FAILED = "runs", "failed"
PUBLISHED = ("recipe", "paper")
"""Profiles with all steps."""
_START = len('{"name": "0123456789abcdef"')


def name_of(inputs: Inputs) -> str:
    """16 hexadecimal digits of the SHA-256 of the inputs in canonical JSON.

    Law: equal inputs, equal names, in whatever order their keys were given.

    >>> name_of({"width": 64, "seed": 0}) == name_of({"seed": 0, "width": 64})
    True
    """
    return hashlib.sha256(canonical.dump(dict(inputs), name="inputs")).hexdigest()[:16]


class Store:
    """The records under a folder: ``runs/<exhibit>.jsonl`` in the order of names, and ``failed/<exhibit>.jsonl``.

    Law: a file is replaced as a whole by one process at a time, so neither a kill nor a second writer loses a record.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = versions()  # now: files may change while jobs run
        self._seen: dict[Path, tuple[tuple[int, ...], dict[str, Record]]] = {}

    def path(self, exhibit: str) -> Path:
        """Where the records of an exhibit are, or would be."""
        return self.folder / _RUNS / f"{exhibit}.jsonl"

    def by_name(self, exhibit: str) -> Mapping[str, Record]:
        """The records of an exhibit, by name; read again only when the file is another one."""
        path = self.path(exhibit)
        if path.with_suffix("").is_dir():
            raise ArgumentError(
                f"{path.with_suffix('')} has a file for each record, as earlier versions wrote them; delete it, and "
                "they are computed again"
            )
        if not path.exists():
            return {}
        state = path.stat()
        mark = (state.st_ino, state.st_mtime_ns, state.st_size)
        if path not in self._seen or self._seen[path][0] != mark:
            self._seen[path] = mark, read(path)
        return self._seen[path][1]

    def missing(self, job: Job) -> list[Inputs]:
        """The inputs of a job that have no record; ArgumentError if one is damaged, since it may be published."""
        records = self.by_name(job.exhibit)
        return [inputs for inputs in job.inputs if name_of(inputs) not in records]

    def records(self, jobs: Iterable[Job]) -> list[Record]:
        """All records of some jobs that are there; each with its number of ``failures`` before."""
        failures: dict[str, Counter[str]] = {}
        found: list[Record] = []
        for job in jobs:
            if job.exhibit not in failures:
                failures[job.exhibit] = self.failures(job.exhibit)
            records = self.by_name(job.exhibit)
            names = [name for inputs in job.inputs if (name := name_of(inputs)) in records]
            found += [{**records[name], "failures": failures[job.exhibit][name]} for name in names]
        return found

    def keep(self, job: Job, inputs: Sequence[Inputs], results: Sequence[Results], wall: float, cpu: float) -> None:
        """Write the records of inputs that were computed together; times are shared out evenly."""
        times = {"wall_seconds": wall / len(inputs), "cpu_seconds": cpu / len(inputs)}
        new = [
            self._line(job, one, "done", {"results": dict(found), **times})
            for one, found in zip(inputs, results, strict=True)
        ]
        starts = tuple(line[:_START] for line in new)
        # A line starts with the name, so sorted lines are records in the order of names, damaged ones among them.
        _rewrite(
            self.path(job.exhibit), lambda old: sorted([line for line in old if line[:_START] not in starts] + new)
        )

    def keep_failure(self, job: Job, inputs: Sequence[Inputs], status: str, reason: str) -> None:
        """Write down that a run came to nothing: ``status`` is "failed" or "cancelled"."""
        new = [self._line(job, one, status, {"reason": reason}) for one in inputs]
        _rewrite(self.failed_path(job.exhibit), lambda old: old + new)

    def failed_path(self, exhibit: str) -> Path:
        """Where the runs of an exhibit that came to nothing are, or would be."""
        return self.folder / _FAILED / f"{exhibit}.jsonl"

    def failures(self, exhibit: str) -> Counter[str]:
        """How often the runs of an exhibit came to nothing, by name."""
        return Counter(json.loads(line)["name"] for line in _lines(self.failed_path(exhibit)))

    def failed(self, jobs: Iterable[Job]) -> int:
        """How many runs of some jobs came to nothing, whether or not a later one was done."""
        names = {(job.exhibit, name_of(inputs)) for job in jobs for inputs in job.inputs}
        counts = {exhibit: self.failures(exhibit) for exhibit, _ in names}
        return sum(counts[exhibit][name] for exhibit, name in names)

    def _line(self, job: Job, inputs: Inputs, status: str, body: Mapping[str, Any]) -> bytes:
        record = {
            "name": name_of(inputs),
            "exhibit": job.exhibit,
            "status": status,
            "inputs": dict(inputs),
            **body,
            "versions": self.versions,
            "finished": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        return _json(record).encode()


def home(profile: str, out: Path = Path("out/paper")) -> Path:
    """Where records are unless a user says so: complete runs are published, others are for a look.

    >>> home("recipe").as_posix(), home("quick").as_posix()
    ('results', 'out/paper/records')
    """
    return Path("results") if profile in PUBLISHED else out / "records"


def read(path: Path) -> dict[str, Record]:
    """The records in a file, by name; ArgumentError if a line is none, or not the one that its name says."""
    records: dict[str, Record] = {}
    for number, line in enumerate(_lines(path), 1):
        try:
            record = json.loads(line)
            good = record["name"] == name_of(record["inputs"]) and isinstance(record["results"], dict)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, number, f"is not a record ({error})") from error
        if not good:
            raise _damaged(path, number, "is not the record of its inputs")
        if record["name"] in records:
            raise _damaged(path, number, "has the inputs of an earlier line")
        records[record["name"]] = dict(record)
    return records


def _damaged(path: Path, number: int, what: str) -> ArgumentError:
    return ArgumentError(f"line {number} of {path} {what}; delete it to compute it again")


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


def _lines(path: Path) -> Lines:
    return path.read_bytes().splitlines() if path.exists() else []


def _rewrite(path: Path, change: Callable[[Lines], Lines]) -> None:
    """Replace the lines of a file, in one step and by one process at a time."""
    with alone(path.parent, wait=True):
        atomic.write_bytes(path, b"".join(line + b"\n" for line in change(_lines(path))))


def _json(value: Any) -> str:
    """On one line; what would come back as something else is refused."""
    canonical.dump(value, name="record")
    return json.dumps(value, allow_nan=False)
