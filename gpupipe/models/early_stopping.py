"""Early stopping: rows to hold out, and training on all rows for the number of rounds that was best on them.

A model is trained twice. The first training finds the number of rounds, the second uses every row. The number is not
scaled with the rows: the second training makes as many passes (Goodfellow, Bengio and Courville, Deep Learning, 2016,
algorithm 7.2; AutoGluon's ``refit_full`` and pytabkit's ``n_refit`` do the same).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from gpupipe.models.base import BestRound, ModelSettings
from gpupipe.models.context import FitContext, ValidationRows
from gpupipe.names import count_noun
from gpupipe.random_streams import make_generator
from gpupipe.table.holdout import held_out
from gpupipe.tasks import CLASSIFICATION

NONE_HELD_OUT = "no row could be held out for early stopping: all rounds were trained"

if TYPE_CHECKING:
    from gpupipe.typing import Array

ModelT = TypeVar("ModelT", bound=ModelSettings)
TrainedT = TypeVar("TrainedT")


class HeldOut(NamedTuple):
    """Rows that one training stops by.

    `drawn` is a mask of the training rows that are held out. Otherwise `given` are other rows, of which those where
    `known` is true are used; None: all.
    """

    drawn: Array | None = None
    given: ValidationRows | None = None
    known: Array | None = None


def fit_rounds(
    model: ModelT,
    y: Array | None,
    classes: tuple[int, ...],
    context: FitContext,
    n_rows: int,
    train: Callable[[ModelT, HeldOut | None], TrainedT],
    best_round: Callable[[TrainedT], BestRound],
) -> tuple[TrainedT, tuple[str, ...]]:
    """Return what `train` returns, of the best number of rounds on all rows if the model stops early, and notes.

    `y` are the `n_rows` training rows, with the codes of `classes` without gaps. `train` trains once, on all rows or
    on those that are not drawn, and `best_round` reads the result of a training that has stopped early. Models that
    do not stop early are trained once, as are those whose validation rows the context has.
    """
    given, share = context.validation, getattr(model, "validation_fraction", None)
    if not model.stops_early(n_rows) or (given is None and share is None):
        return train(model, None), ()
    assert y is not None
    if given is not None:
        codes, known = gapless_codes(given, classes, context)
        n_held = len(codes) if known is None else int(known.sum())
        if not n_held:
            return train(model.with_rounds(None), None), (NONE_HELD_OUT,)
        trained = train(model, HeldOut(given=replace(given, y=codes), known=known))
        found = best_round(trained)
        context.report_rounds(found)
        return trained, (describe_rounds(found, n_held, None),)
    assert share is not None
    held = draw_validation_rows(y, float(share), context)
    if not held.any():
        return train(model.with_rounds(None), None), (NONE_HELD_OUT,)
    found = best_round(train(model, HeldOut(held)))
    note = describe_rounds(found, int(held.sum()), n_rows)
    return train(model.with_rounds(found.best), None), (note,)


def draw_validation_rows(y: Array, share: float, context: FitContext) -> Array:
    """Return a mask of rows to hold out for early stopping; no row if none can be spared.

    The rows have other groups or later times than the others, if the context has groups or times. Otherwise they are
    drawn at random, stratified by class. Each class keeps a row to train on.

    `y` has class codes from 0 or numbers, shape (n,) or (n, n_targets); rows of several targets are drawn without
    regard to their classes. `share` is the share of the rows; from 1 on, their number.
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
