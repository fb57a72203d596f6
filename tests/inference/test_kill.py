"""A run that is killed at any moment, again and again, ends in the same bits as one that is left alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 20


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills copies of a process, which this system cannot make")
def test_twenty_kills_leave_no_trace(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(KILLS)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    whole, killed, places = json.loads(done.stdout)
    assert len(whole) == 64
    assert killed == whole
    assert len(places) == KILLS
    assert len(set(places)) > 5  # the kills came at different moments of a run
