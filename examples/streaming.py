"""Data that come in parts: a model learns part after part, and its error and doubt fall with what it has seen.

Ends in a table on the screen and in out/examples/streaming.txt. In miniature: python examples/streaming.py --quick
"""

import sys
from pathlib import Path

import numpy as np

from whvi.sklearn import WHVIRegressor

ROWS = 40 if "--quick" in sys.argv else 2000

rng = np.random.default_rng(0)


def measure(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a machine with six settings, and what it yields, with noise."""
    X = rng.uniform(-1, 1, (rows, 6))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(rows)


X_test, y_test = measure(1000)
model = WHVIRegressor((64, 64), batch_size=16, random_state=0)
lines = [f"{'rows seen':>10}{'RMSE':>8}{'MNLL':>8}{'mean std':>10}{'90 % intervals hold':>21}"]
for _ in range(5):
    X, y = measure(ROWS)  # these rows are used now, and never again
    model.partial_fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    low, high = model.predict_interval(X_test, level=0.9)
    rmse, mnll = np.sqrt(np.mean((mean - y_test) ** 2)), -model.log_prob(X_test, y_test).mean()
    held = np.mean((low <= y_test) & (y_test <= high))
    lines.append(f"{model.n_rows_seen_:10,.0f}{rmse:8.3f}{mnll:8.3f}{std.mean():10.3f}{held:21.0%}")
print(*lines, sep="\n")
out = Path("out/examples")
out.mkdir(parents=True, exist_ok=True)
(out / "streaming.txt").write_text("\n".join(lines) + "\n")
