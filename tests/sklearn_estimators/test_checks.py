"""scikit-learn's own checks of an estimator: all of them, none expected to fail, none left out."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from whvi.sklearn import WHVIClassifier, WHVIRegressor

QUICK: dict[str, Any] = {"n_members": 1, "max_steps": 40, "learning_rate": 0.05, "samples": 16}


@parametrize_with_checks([WHVIRegressor((16,), **QUICK), WHVIClassifier((16,), **QUICK)])
def test_scikit_learn_accepts_it(estimator: Any, check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # else scikit-learn leaves its check of array inputs out
    check(estimator)
