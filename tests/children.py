"""Scripts that tests run in a process of their own."""

import json
import os
import subprocess
import sys
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
