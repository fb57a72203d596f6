"""The datasets of the paper, by name: found, fetched or computed, checked, and split.

Looked for in the folder ``WHVI_DATA``, then in the user's cache, then at the public origin.
"""

from whvi.moved import moved_names
from whvi_paper.data.catalogue import DATASETS
from whvi_paper.data.fetching import DataError
from whvi_paper.data.loading import load
from whvi_paper.data.splits import Split, split
from whvi_paper.data.table import DatasetKind, LoadedDataset

__all__ = ["DATASETS", "DataError", "DatasetKind", "LoadedDataset", "Split", "load", "split"]
__getattr__ = moved_names(__name__, {"Data": "whvi_paper.data:LoadedDataset", "Task": "whvi_paper.data:DatasetKind"})
