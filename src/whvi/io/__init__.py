"""Atomic writes, canonical JSON, and checkpoints without pickle."""

from whvi.io import atomic, canonical, checkpoint, folder
from whvi.io.checkpoint import SavedState
from whvi.moved import moved_names

__all__ = ["SavedState", "atomic", "canonical", "checkpoint", "folder"]
__getattr__ = moved_names(__name__, {"Checkpoint": "whvi.io:SavedState"})  # a callback has that name
