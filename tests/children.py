"""What tests run in a process of its own: a script, or a copy of the process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def answer_of(script: Path, *arguments: object, timeout: float = 300.0) -> Any:
    """The JSON that a script prints, on one thread."""
    done = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def forked(task: Callable[[], object]) -> int:
    """The number of a copy of this process, which does a task and ends with 0 if it succeeds."""
    child = os.fork()
    if not child:
        try:
            task()
            os._exit(0)
        finally:
            os._exit(1)
    return child
