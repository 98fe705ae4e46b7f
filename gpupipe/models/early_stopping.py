"""Early stopping: rows to hold out, and training on all rows for the number of rounds that was best on them.

A model is trained twice. The first training finds the number of rounds, the second uses every row. The number is not
scaled with the rows: the second training makes as many passes (Goodfellow, Bengio and Courville, Deep Learning, 2016,
algorithm 7.2; AutoGluon's ``refit_full`` and pytabkit's ``n_refit`` do the same).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.models.base import BestRound
from gpupipe.models.context import FitContext, ValidationRows
from gpupipe.names import count_noun
from gpupipe.random_streams import make_generator
from gpupipe.table.holdout import held_out
from gpupipe.tasks import CLASSIFICATION

NONE_HELD_OUT = "no row could be held out for early stopping: all rounds were trained"

if TYPE_CHECKING:
    from gpupipe.typing import Array


def draw_validation_rows(y: Array, share: float, context: FitContext) -> Array:
    """Return a mask of rows to hold out for early stopping; no row if none can be spared.

    The rows have other groups or later times than the others, if the context has groups or times. Otherwise they are
    drawn at random, stratified by class. Each class keeps a row to train on.

    Parameters
    ----------
    y : array, shape (n,) or (n, n_targets)
        Class codes from 0, or numbers; rows of several targets are drawn without regard to their classes.
    share : float
        Share of the rows; from 1 on, their number.

    Returns
    -------
    array of bool, shape (n,)
    """
    import numpy as np

    n_rows, is_class = len(y), context.task in CLASSIFICATION and not context.targets
    share = share if share < 1 else share / n_rows
    groups, times = context.groups, context.times
    if groups is not None and (groups == groups[:1]).all():
        groups = None  # a single group cannot be divided otherwise
    codes = y.astype(np.int64) if is_class else np.zeros(n_rows, np.int64)
    # Rows that are never held out without others of their class.
    drawn = np.bincount(codes)[codes] > 1
    strata = codes[drawn] if groups is None and times is None and is_class else None
    if not 0 < share < 1 or drawn.sum() < 2:
        return np.zeros(n_rows, bool)
    groups, times = (None if column is None else column[drawn] for column in (groups, times))
    if groups is not None and (groups == groups[:1]).all():
        groups = None
    chosen = held_out(int(drawn.sum()), share, strata, groups, times, make_generator(context.seed, "early stopping"))
    mask = np.zeros(n_rows, bool)
    mask[drawn] = chosen
    if is_class:
        mask &= np.isin(codes, codes[~mask])
    return np.zeros(n_rows, bool) if mask.all() else mask


def gapless_codes(
    validation: ValidationRows, classes: tuple[int, ...], context: FitContext
) -> tuple[Array, Array | None]:
    """Return the target of validation rows with the codes of the training rows, and a mask of rows to use.

    Training rows that lack a class have codes without gaps; rows of a class that they lack are not used. The mask is
    None if there are no such rows.
    """
    import numpy as np

    y = np.asarray(validation.y)
    if context.task not in CLASSIFICATION or context.targets or len(classes) == context.n_classes:
        return y, None
    known = np.isin(y, classes)
    return np.searchsorted(classes, y), None if known.all() else known


def describe_rounds(found: BestRound, n_held_out: int, n_refit: int | None, unit: str = "round") -> str:
    """Return the note about early stopping; `n_refit` is the number of rows of the second training, if any."""
    text = f"best {unit} {found.best:,} of {found.trained:,} on {n_held_out:,} held-out rows"
    if n_refit is None:
        return text
    return f"{text}; trained again on all {n_refit:,} rows for {count_noun(found.best, unit)}"
