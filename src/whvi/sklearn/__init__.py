"""scikit-learn estimators with predictive distributions, in the extra ``sklearn``."""

from whvi.errors import MissingPackageError

try:
    import sklearn as _installed  # the real one, not this package
except ModuleNotFoundError as error:
    raise MissingPackageError(
        "whvi.sklearn needs scikit-learn; install it with: pip install 'whvi[sklearn]'"
    ) from error

from whvi.sklearn.classifier import WHVIClassifier
from whvi.sklearn.regressor import WHVIRegressor

del _installed
__all__ = ["WHVIClassifier", "WHVIRegressor"]
