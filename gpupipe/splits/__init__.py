"""Which rows train and which test. A split is a mask: rows are never shuffled or gathered to make one."""

from __future__ import annotations

from gpupipe.splits.holdout import FewRows
from gpupipe.splits.make import Fold, check_splits, hold_out, make_splits
from gpupipe.splits.settings import Predefined, Split

__all__ = ["FewRows", "Fold", "Predefined", "Split", "check_splits", "hold_out", "make_splits"]
