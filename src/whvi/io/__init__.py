"""Files that are whole or absent: atomic writes, canonical JSON, and checkpoints without pickle."""

from whvi.io import atomic, canonical, checkpoint
from whvi.io.checkpoint import Checkpoint

__all__ = ["Checkpoint", "atomic", "canonical", "checkpoint"]
