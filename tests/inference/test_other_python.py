"""A run goes on under another version of Python: nothing that a checkpoint is checked by is a matter of that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from other_python import STEPS, Network, train

from whvi.io import checkpoint

OTHER = os.environ.get("WHVI_OTHER_PYTHON")


def test_a_function_of_other_byte_code_is_the_same_function(tmp_path: Path) -> None:
    codes = {Network(optimize).activation.__code__.co_code for optimize in (0, 2)}
    assert len(codes) == 2
    whole = train(tmp_path / "whole", STEPS)
    train(tmp_path / "run", STEPS - 3)
    resumed = train(tmp_path / "run", STEPS, optimize=2)
    torch.testing.assert_close(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)
    assert checkpoint.steps(tmp_path / "run") == [STEPS - 2, STEPS]


@pytest.mark.skipif(not OTHER, reason="WHVI_OTHER_PYTHON names no other interpreter that has torch")
def test_what_another_python_began_is_resumed(tmp_path: Path) -> None:
    """Begun there and ended here, and the other way round."""
    script = Path(__file__).with_name("other_python.py")
    source = Path(__file__).parents[2] / "src"

    def there(steps: int) -> str:
        command = [str(OTHER), str(script), str(tmp_path / "run"), str(steps)]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    whole = train(tmp_path / "whole", STEPS)
    assert there(2) != "{}.{}".format(*sys.version_info)
    train(tmp_path / "run", 4)
    there(STEPS)
    resumed = train(tmp_path / "run", STEPS)
    torch.testing.assert_close(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)
