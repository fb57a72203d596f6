"""Old import path of ``whvi_tables``: the same modules, with a DeprecationWarning, for one release."""

import sys
import warnings
from importlib import import_module

_MODULES = (
    "columns", "commands", "fields", "fitting", "folder", "judging", "kinds", "pictures", "predicting", "reading",
    "report", "settings", "task",
)  # fmt: skip

warnings.warn("whvi.tables has moved: import whvi_tables", DeprecationWarning, stacklevel=2)
for _name in _MODULES:
    # An import of whvi.tables.folder finds the module under this name, and so the same objects.
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = import_module(f"whvi_tables.{_name}")
