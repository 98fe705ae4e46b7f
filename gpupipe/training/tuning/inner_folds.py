"""Folds of the training rows, on which the trials of a search are compared."""

from __future__ import annotations

from gpupipe.errors import DataError
from gpupipe.model_parts.goal import Goal, stratum_codes
from gpupipe.random_streams import derive_seed
from gpupipe.splits import Fold, RareClassError, Split, make_splits
from gpupipe.typing import Array


def make_inner_folds(
    split: Split, n_folds: int, y: Array, groups: Array | None, times: Array | None, goal: Goal, seed: int
) -> tuple[list[Fold], str]:
    """Return the folds of the training rows by the rules of `split`, and a note; "" without one.

    `y`, shape (n_rows,) or (n_rows, n_targets), has class codes or numbers of the training rows; `groups` and `times`
    have shape (n_rows,). Raise DataError if there are fewer rows or groups than folds.
    """
    inner = split.model_copy(update={"cv": n_folds, "column": None, "cutoff": None, "repeats": 1, "seed": None})
    own_seed = derive_seed(seed if split.seed is None else split.seed, "folds of a search")
    codes = stratum_codes(goal, y, n_folds)
    try:
        return make_splits(inner, len(y), codes, groups, times, own_seed), ""
    except RareClassError as error:
        what = "a set of classes is rare" if goal.targets else error.named(goal.labels).what
        unstratified = inner.model_copy(update={"stratify": False})
        folds = make_splits(unstratified, len(y), None, groups, times, own_seed)
        return folds, f"the folds of the search are not stratified: {what}"
    except DataError as error:
        raise DataError(error.what, where="models: tune.folds", fix="set tune: {folds: 2}, or add rows") from error
