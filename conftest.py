"""What the collection of doctests must leave out."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/whvi/ops/triton_backend.py"]
