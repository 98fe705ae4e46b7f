"""Which rows train and which test. A split is a mask: rows are never shuffled or gathered to make one."""

from __future__ import annotations

from gpupipe.splits.folds import Fold, check_splits, hold_out, make_splits
from gpupipe.splits.holdout import RareClassError
from gpupipe.splits.settings import Predefined, Split

__all__ = ["Fold", "Predefined", "RareClassError", "Split", "check_splits", "hold_out", "make_splits"]
