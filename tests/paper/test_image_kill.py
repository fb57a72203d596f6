"""A network on images that is killed in mid-epoch ends with the numbers of one that is left alone."""

import os
from pathlib import Path

import pytest

from children import answer_of


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills copies of a process, which this system cannot make")
def test_a_kill_in_mid_epoch_leaves_no_trace(tmp_path: Path) -> None:
    script = Path(__file__).with_name("image_killed.py")
    whole, killed, was_killed, places = answer_of(script, tmp_path)
    assert was_killed
    assert places == [5]  # the second epoch was under way
    for (results,) in (whole, killed):
        assert results.pop("training_cpu_seconds") > 0
    assert killed == whole  # metrics, reliability, other images, and the learning curve
    assert [point[0] for point in whole[0]["curve"]] == [1, 2, 3]
    assert whole[0]["metrics"]["error"] < 0.9  # it has learned something, so that there is something to lose
