"""What the collection of doctests must leave out."""

from importlib.util import find_spec

collect_ignore = ["src/whvi/tables.py"]  # an old import path, which warns
if not find_spec("triton"):
    collect_ignore.append("src/whvi/ops/triton_backend.py")
