"""Run by ``test_image_kill.py`` in a fresh process: a network on images, trained alone, and killed in mid-epoch.

``python image_killed.py FOLDER``: prints one line of JSON: the results of both, whether the first attempt was killed,
and the steps of its checkpoints at that moment.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers load it: here once, and not in each copy of this process
from torch import Tensor

from whvi.io import checkpoint
from whvi_paper.images.augmentation import Augment
from whvi_paper.images.training import train

INPUTS = {
    "task": "image classification",
    "dataset": "synthetic-images",
    "model": "simple-cnn",
    "method": "whvi",
    "epochs": 3,
    "samples": 2,
    "configuration": {"batch_size": 40, "learning_rate": 3e-3, "schedule": "one-cycle", "precision": "full"},
    "seed": 0,
}
STEPS_OF_EPOCH = 5
FATAL_BATCH = 1 + 2 * STEPS_OF_EPOCH - 2
"""Of those that are asked for: the first is a look at the precision, and an epoch should not be over."""


def run(folder: Path, fatal: int | None = None) -> int:
    """Train in a copy of this process, which kills itself at a batch; the status it ended with."""
    number = os.fork()
    if number == 0:
        code = 1
        try:
            if fatal is not None:
                die_at(fatal)
            found = train([INPUTS], folder / "work", lambda share: None)
            (folder / "results.json").write_text(json.dumps(found))
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(number, 0)[1]


def die_at(batch: int) -> None:
    """From now on, the batch of that number is the last thing that this process sees."""
    plain, seen = Augment.__call__, 0

    def augment(self: Augment, images: Tensor) -> Tensor:
        nonlocal seen
        seen += 1
        if seen == batch:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(self, images)

    Augment.__call__ = augment  # type: ignore[method-assign]


def main(root: Path) -> None:
    """Both ways to the end."""
    torch.set_num_threads(1)
    whole, killed = root / "whole", root / "killed"
    for folder in (whole, killed):
        (folder / "work").mkdir(parents=True)
    assert run(whole) == 0
    status = run(killed, FATAL_BATCH)
    places = checkpoint.steps(killed / "work" / "checkpoint")
    assert run(killed) == 0
    results: list[Any] = [json.loads((folder / "results.json").read_text()) for folder in (whole, killed)]
    print(json.dumps([*results, os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, places]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
