"""Folds of the training rows of an ensemble.

Rows are assigned at random under ``split.time`` too. Later rows test the ensemble, so that its own folds need not go
forward: models that were trained on, and stopped by, all periods up to the latest predict later rows better than those
of forward folds. Source: Cai and Ye, "Understanding the Limits of Deep Tabular Methods with Temporal Shift", ICML 2025.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupipe.random_streams import derive_seed
from gpupipe.splits import Fold, Split, make_splits, merge_rare
from gpupipe.typing import Array

MOST_FOLDS, FEWER_FOLDS = 8, 5
MANY_ROWS = 100_000
ROWS_PER_FOLD = 5


@dataclass(frozen=True)
class BaggingFolds:
    """Folds on which every model of an ensemble is trained and evaluated."""

    folds: tuple[Fold, ...]  # masks of the rows to train on and of the rows to predict
    # Folds for which a time limit leaves no time before the members are chosen. A member is trained on as many of them
    # as possible afterwards.
    others: tuple[Fold, ...] = ()

    @property
    def n_folds(self) -> int:
        """Number of folds on which every model is trained."""
        return len(self.folds)

    @property
    def predicted(self) -> Array:
        """Mask of the rows that a fold predicts: bool, shape (n_rows,)."""
        mask = self.folds[0].test.copy()
        for fold in self.folds[1:]:
            mask |= fold.test
        return mask

    def first(self, n_folds: int) -> BaggingFolds:
        """Return these folds with all except the first ones postponed."""
        return BaggingFolds(self.folds[:n_folds], (*self.folds[n_folds:], *self.others))


def fold_choices(n_rows: int, folds: int | None, n_groups: int | None = None) -> list[int]:
    """Return the numbers of folds to choose from, the most accurate first.

    More folds train each model on more rows. 8 is AutoGluon's number; from 100,000 rows on, 5 folds are as good and
    cost less. A stated number is not reduced.

    Examples
    --------
    >>> fold_choices(5_000, None), fold_choices(5_000, 10), fold_choices(5_000, None, n_groups=6)
    ([8, 5, 4], [10], [6, 5, 4])
    """
    most = n_rows // 2 if n_groups is None else n_groups
    if folds is not None:
        return [max(2, min(folds, most))]
    first = MOST_FOLDS if n_rows <= MANY_ROWS else FEWER_FOLDS
    first = max(2, min(first, n_rows // ROWS_PER_FOLD, most))
    return [first, *(n for n in (FEWER_FOLDS, 4) if n < first)]


def make_folds(
    n_folds: int,
    n_rows: int,
    classes: Array | None,
    groups: Array | None,
    seed: int,
) -> BaggingFolds:
    """Return the folds: stratified by class, or of whole groups.

    Raise DataError if all rows are in one group, or there are too few rows.

    - `classes` (array of int, shape (n_rows,)): class codes. Classes with fewer rows than folds are stratified
      together: a fold may lack one.
    - `groups`: array, shape (n_rows,)
    """
    strata = None if classes is None else merge_rare(classes, n_folds)
    seed = derive_seed(seed, "folds of an ensemble")
    return BaggingFolds(tuple(make_splits(Split(cv=n_folds), n_rows, strata, groups, seed=seed)))
