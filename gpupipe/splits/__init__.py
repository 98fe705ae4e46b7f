"""Splits of rows into training and test rows. A split is a pair of masks; rows are never moved or copied."""

from __future__ import annotations

from gpupipe.splits.fold import Fold
from gpupipe.splits.folds import check_classes, check_splits, hold_out, make_splits
from gpupipe.splits.settings import Predefined, Split
from gpupipe.splits.time_folds import final_training_rows
from gpupipe.table.holdout import RareClassError, merge_rare

__all__ = [
    "Fold",
    "Predefined",
    "RareClassError",
    "Split",
    "check_classes",
    "check_splits",
    "final_training_rows",
    "hold_out",
    "make_splits",
    "merge_rare",
]
