"""A model as a folder: the estimator's checkpoint, the encoding of the columns, metrics, and the report.

A manifest binds them all: see ``whvi.io.folder``, which also says how one model takes the place of another.

Law: the folder is complete or unchanged; a crash can leave a folder with a dot and ``.tmp`` in its name.
"""

import json
import math
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whvi.errors import ArgumentError, CheckpointError
from whvi.io import atomic, canonical, manifest
from whvi.io import folder as sealed
from whvi_tables.columns import Columns
from whvi_tables.fitting import ESTIMATORS, Fitted, Model
from whvi_tables.task import Task
from whvi_tables.writing import check_writable

FORMAT = "whvi table model"
VERSION = 2
WITHOUT_MANIFEST = 1
"""Of version 0.1: its files are checked one by one, and not against each other."""
ADVICE = "restore it from a copy, or fit again"
COLUMNS, METRICS, REPORT, ESTIMATOR = "columns.json", "metrics.json", "report.html", "estimator"


def check_free(folder: Path, force: bool) -> None:
    """Raise the ArgumentError of a place where no model may be written; with ``force`` another model is no obstacle."""
    check_writable(folder)
    found = sealed.standing(folder)
    there = found.exists() or found.is_symlink()
    if there and not force:
        raise ArgumentError(f"{folder} exists; choose another --out, or --force to replace the model in it")
    if there and (not (found / COLUMNS).is_file() or found.is_symlink()):
        raise ArgumentError(f"{folder} is not a model folder, so --force does not replace it; choose another --out")


def save(fitted: Fitted, folder: Path, force: bool = False) -> Callable[[str], None]:
    """Write a model folder, in place of another model only with ``force``; an OSError is one of ``folder``.

    The result is a function that adds the report later, so that the model is saved before the plots are made.
    """
    check_free(folder, force)
    try:
        manifest = _save(fitted, folder.absolute(), force)
    except OSError as error:  # it names a temporary file, which says nothing to the caller
        raise OSError(error.errno, error.strerror, str(folder)) from error
    return lambda report: sealed.add(folder.absolute(), REPORT, report, manifest)


def _save(fitted: Fitted, place: Path, force: bool) -> bytes:
    place.parent.mkdir(parents=True, exist_ok=True)
    new = place.with_name(f".{place.name[:32]}.{secrets.token_hex(8)}{atomic.TEMPORARY_SUFFIX}")
    try:
        fitted.model.estimator.save(new / ESTIMATOR)
        atomic.write_bytes(new / COLUMNS, _sealed(fitted.model))
        atomic.write_text(new / METRICS, json.dumps(metrics(fitted), indent=2, allow_nan=False) + "\n")
        manifest = sealed.seal(new)
        sealed.put(new, place, replace=force)
        return manifest
    except BaseException:  # an interrupt must not leave a part of it either
        shutil.rmtree(new, ignore_errors=True)
        raise


def load(folder: Path) -> Model:
    """Load the model of a folder; raises a CheckpointError if it is invalid."""
    return sealed.read(folder, _load)


def _load(folder: Path) -> Model:
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder; pass a folder that whvi fit wrote")
    path = folder / COLUMNS
    if not path.is_file():
        raise CheckpointError(
            f"{folder} has no {COLUMNS}, so it is not a complete model; pass a folder that whvi fit wrote"
        )
    if (size := path.stat().st_size) > manifest.LIMIT:
        raise CheckpointError(
            f"{path} is damaged: it has {size} bytes, and at most {manifest.LIMIT} are read; {ADVICE}"
        )
    try:
        found = canonical.parse(path.read_bytes())
        seal = found.pop("sha256", None) if isinstance(found, dict) else None
        version = _check(path, found, seal)
        task, columns = Task(found["task"]), Columns.from_json(found["columns"])
        if not isinstance(target := found["target"], str):
            raise ArgumentError(f"its target must be a name, got {target!r:.40}")
    except (ArgumentError, ValueError, KeyError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{path} is damaged: {error!s:.300}; {ADVICE}") from error
    try:
        if version != WITHOUT_MANIFEST or (folder / sealed.NAME).exists():
            sealed.check(folder)
        estimator = ESTIMATORS[task].load(folder / ESTIMATOR)
    except CheckpointError as error:
        raise CheckpointError(f"{folder} cannot be used ({error}); {ADVICE}") from error
    if estimator.n_features_in_ != len(columns.features):
        raise CheckpointError(
            f"{folder} mixes two models: {COLUMNS} makes {len(columns.features)} features, but its estimator takes "
            f"{estimator.n_features_in_}; {ADVICE}"
        )
    return Model(task, target, columns, estimator)


def metrics(fitted: Fitted) -> dict[str, Any]:
    """The metrics of the report, with None for values that are not finite, which JSON cannot represent."""
    found = fitted.judgement.metrics

    def finite(value: float | None) -> float | None:
        return None if value is None or not math.isfinite(value) else value

    return {
        "task": fitted.model.task,
        "target": fitted.model.target,
        "held_out_rows": len(fitted.judgement.rows),
        "metrics": {
            metric.name: {"model": finite(metric.value), "baseline": finite(metric.baseline)} for metric in found
        },
    }


def _sealed(model: Model) -> bytes:
    content = {
        "format": FORMAT,
        "version": VERSION,
        "task": str(model.task),
        "target": model.target,
        "columns": model.columns.to_json(),
    }
    return canonical.dump({**content, "sha256": manifest.digest(canonical.dump(content))})


def _check(path: Path, found: Any, seal: str | None) -> int:
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CheckpointError(f"{path} does not belong to a model of whvi fit; pass another folder")
    version = found.get("version")
    if isinstance(version, int) and version > VERSION:
        raise CheckpointError(f"{path} was written by a later whvi (version {version}, this reads {VERSION}); upgrade")
    if manifest.digest(canonical.dump(found)) != seal:
        raise CheckpointError(f"{path} is damaged: its sha256 differs from the stated one; {ADVICE}")
    if version not in (WITHOUT_MANIFEST, VERSION):
        raise CheckpointError(f"{path} has the unknown version {version!r:.20}; {ADVICE}")
    return int(version)
