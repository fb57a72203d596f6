"""Write what this version saves, and what it makes of it, for later ones to read: ``python tests/write_golden.py 0.2``.

Once for each release; the folders stay as they are. ``tests/test_golden.py`` reads them.
"""

import json
import sys
from pathlib import Path

import numpy as np

from saved import KINDS, MORE_KINDS, STEPS, run

GOLDEN = Path(__file__).with_name("golden")
EXPECTED = "expected.json"
ALL = KINDS | MORE_KINDS


def write(folder: Path) -> None:
    """A folder of each kind, and what is predicted with it; of the run, also where twice as many steps end."""
    folder.mkdir(parents=True)
    expected = {}
    for name, kind in ALL.items():
        kind.make(folder / name)
        expected[name] = np.asarray(kind.predict(kind.load(folder / name)), float).tolist()
    longer = run(folder / "longer", 2 * STEPS)
    expected["longer"] = np.asarray(KINDS["run"].predict(longer), float).tolist()
    for path in sorted((folder / "longer").iterdir()):
        path.unlink()
    (folder / "longer").rmdir()
    (folder / EXPECTED).write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    write(GOLDEN / sys.argv[1])
