"""A table: a scikit-learn estimator that gives a mean, an interval for each row, and says which rows it doubts.

Ends in out/examples/table.csv and a table on the screen. In miniature: python examples/table.py --quick
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split

from whvi.sklearn import WHVIRegressor

STEPS = 20 if "--quick" in sys.argv else None  # None: as many as suit the rows

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
model = WHVIRegressor(max_steps=STEPS, random_state=0).fit(X_train, y_train)

# How good, beside the mean of the training rows and a linear model
print(f"{'held-out rows':24}{'RMSE':>8}{'90 % intervals hold':>22}")
for name, rival in {"mean": DummyRegressor(), "BayesianRidge": BayesianRidge()}.items():
    found = rival.fit(X_train, y_train).predict(X_test)
    print(f"{name:24}{np.sqrt(np.mean((found - y_test) ** 2)):8.1f}")
mean, std = model.predict(X_test, return_std=True)
low, high = model.predict_interval(X_test, level=0.9)
held = np.mean((low <= y_test) & (y_test <= high))
print(f"{'WHVIRegressor':24}{np.sqrt(np.mean((mean - y_test) ** 2)):8.1f}{held:22.0%}")

# The rows it is surest of, and those that it doubts most
print(f"\n{'row':>4}{'mean':>8}{'std':>8}{'90 % interval':>18}{'truth':>8}")
order = np.argsort(std)
for row in [*order[:3], *order[-3:]]:
    interval = f"{low[row]:.0f} to {high[row]:.0f}"
    print(f"{row:4}{mean[row]:8.0f}{std[row]:8.1f}{interval:>18}{y_test[row]:8.0f}")

out = Path("out/examples")
out.mkdir(parents=True, exist_ok=True)
header, columns = "mean,std,low_90,high_90,truth", np.column_stack([mean, std, low, high, y_test])
np.savetxt(out / "table.csv", columns, delimiter=",", header=header, comments="", fmt="%.4g")
print(f"\ntable: {out / 'table.csv'}")
