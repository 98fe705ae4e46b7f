"""Folds of the training rows of an ensemble.

Under ``split.time``, models are trained and stopped on random folds too, so that they learn from all periods up to the
latest (Cai and Ye, "Understanding the Limits of Deep Tabular Methods with Temporal Shift", ICML 2025). They are
compared on later rows, by models of earlier rows: on random folds, a model that interpolates between the periods looks
better than one that extrapolates (Cerqueira, Torgo and Mozetič, "Evaluating time series forecasting models: an
empirical study on performance estimation methods", Machine Learning 109, 2020).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpupipe.errors import DataError
from gpupipe.random_streams import derive_seed, make_generator
from gpupipe.splits import Fold, Split, hold_out, make_splits, merge_rare
from gpupipe.table.holdout import held_out
from gpupipe.typing import Array

MOST_FOLDS, FEWER_FOLDS = 8, 5
MANY_ROWS = 100_000
ROWS_PER_FOLD = 5
LATER_SHARE = 1 / 8  # of the rows, the latest ones: models are compared on them


@dataclass(frozen=True)
class LaterFold(Fold):
    """Rows to train on and rows that stop the training (`test`), all earlier than the rows to predict (`later`)."""

    later: Array  # bool, shape (n_rows,)


def predicted_rows(fold: Fold) -> Array:
    """Return the mask of the rows that the model of a fold predicts."""
    return fold.later if isinstance(fold, LaterFold) else fold.test


@dataclass(frozen=True)
class FoldRule:
    """Rule that divides rows into folds.

    The gap and the groups of `split` separate earlier from later rows. `given` are folds that evaluate the ensemble.
    """

    split: Split = field(default_factory=Split)
    given: tuple[Fold, ...] = ()


@dataclass(frozen=True)
class BaggingFolds:
    """Folds on which every model of an ensemble is trained and evaluated."""

    folds: tuple[Fold, ...]  # masks of the rows to train on and of the rows to predict
    # Folds for which a time limit leaves no time before the members are chosen. A member is trained on as many of them
    # as possible afterwards.
    others: tuple[Fold, ...] = ()
    # With times: the rows to compare models on. Its models are not members.
    later: LaterFold | None = None

    @property
    def n_folds(self) -> int:
        """Number of folds whose models can be members."""
        return len(self.folds)

    @property
    def trained(self) -> tuple[Fold, ...]:
        """The folds on which every model is trained; the one that compares the models is the first."""
        return (*self.compares, *self.folds)

    @property
    def compares(self) -> tuple[Fold, ...]:
        """The fold that predicts later rows, if there is one."""
        return () if self.later is None else (self.later,)

    @property
    def compared(self) -> Array:
        """Mask of the rows whose predictions compare the models: bool, shape (n_rows,)."""
        if self.later is not None:
            return self.later.later
        mask = self.folds[0].test.copy()
        for fold in self.folds[1:]:
            mask |= fold.test
        return mask

    def first(self, n_folds: int) -> BaggingFolds:
        """Return these folds with all except the first ones postponed."""
        return BaggingFolds(self.folds[:n_folds], (*self.folds[n_folds:], *self.others), self.later)


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


def make_later_fold(
    split: Split, classes: Array | None, groups: Array | None, times: Array, seed: int
) -> LaterFold | None:
    """Return the fold that predicts the latest eighth of the rows, by the gap and the groups of `split`.

    The rows that stop a training are drawn from the earlier ones, as from those of a member. None if too few rows,
    times or classes are left; parameters as in `make_folds`, and `times`: array, shape (n_rows,).
    """
    every, seed = np.ones(len(times), bool), derive_seed(seed, "folds of an ensemble")
    try:
        fold = hold_out(split, every, LATER_SHARE, None, groups, times, seed)
        earlier = np.flatnonzero(fold.train)
        strata = None if classes is None else merge_rare(classes[earlier], 2)
        own_groups = None if groups is None else groups[earlier]
        generator = make_generator(seed, "early stopping")
        chosen = held_out(len(earlier), LATER_SHARE, strata, own_groups, None, generator)
    except DataError:
        return None
    train, stop = np.zeros(len(times), bool), np.zeros(len(times), bool)
    train[earlier[~chosen]], stop[earlier[chosen]] = True, True
    has_rows = 2 * fold.test.sum() <= len(times) and train.sum() >= ROWS_PER_FOLD * MOST_FOLDS and stop.any()
    has_classes = classes is None or all(len(np.unique(classes[mask])) > 1 for mask in (train, fold.test))
    return LaterFold(train, stop, fold.test) if has_rows and has_classes else None
