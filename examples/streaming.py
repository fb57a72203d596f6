"""Data that come in parts: the posterior of the rows so far is the prior of the next, and no row is used twice.

Ends in a table on the screen and in out/examples/streaming.txt. In miniature: python examples/streaming.py --quick
"""

import sys
from pathlib import Path

import numpy as np

from whvi.sklearn import WHVIRegressor

ROWS, STEPS = (40, 3) if "--quick" in sys.argv else (500, 600)

rng = np.random.default_rng(0)


def measure(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Six settings of a machine, and its yield with noise of 0.1."""
    X = rng.uniform(-1, 1, (rows, 6))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(rows)


def score(model: WHVIRegressor) -> str:
    """RMSE, MNLL, and the share of targets in 90 % intervals."""
    low, high = model.predict_interval(X_test, level=0.9)
    held = np.mean((low <= y_test) & (y_test <= high))
    rmse = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
    return f"{rmse:8.3f}{-model.log_prob(X_test, y_test).mean():8.3f}{held:8.0%}"


X_test, y_test = measure(1000)
settings = {"hidden_layer_sizes": (64, 64), "n_members": 1, "max_steps": STEPS, "random_state": 0}
stream = WHVIRegressor(**settings)
head = f"{'RMSE':>8}{'MNLL':>8}{'90 %':>8}"
lines = [f"{'':10}{'all parts so far':>24}{'the last part alone':>24}", f"{'rows seen':10}{head}{head}"]
for part in range(1, 6):
    X, y = measure(ROWS)
    stream.partial_fit(X, y, prior="posterior")
    alone = WHVIRegressor(**settings).fit(X, y)
    lines.append(f"{part * ROWS:<10,}{score(stream)}{score(alone)}")
print(*lines, sep="\n")
out = Path("out/examples")
out.mkdir(parents=True, exist_ok=True)
(out / "streaming.txt").write_text("\n".join(lines) + "\n")
