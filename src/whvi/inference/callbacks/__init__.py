"""Callbacks: actions of a fit in addition to its steps. Subclass ``Callback`` to write your own."""

from whvi.inference.callbacks.base import Callback, Moment
from whvi.inference.callbacks.checkpoint import Checkpoint
from whvi.inference.callbacks.early_stopping import EarlyStopping
from whvi.inference.callbacks.every import Every
from whvi.inference.callbacks.history import History
from whvi.inference.callbacks.progress import Progress
from whvi.inference.callbacks.tensorboard import TensorBoard

__all__ = ["Callback", "Checkpoint", "EarlyStopping", "Every", "History", "Moment", "Progress", "TensorBoard"]
