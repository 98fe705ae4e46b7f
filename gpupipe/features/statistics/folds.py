"""Folds of the training rows for cross-fitted statistics: balanced, stratified by class, or by group."""

from __future__ import annotations

import heapq

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.row_blocks import map_row_blocks
from gpupipe.random_streams import make_generator
from gpupipe.table.blocks import code_storage
from gpupipe.typing import Array


def assign_folds(n_rows: int, n_folds: int, seed: int, target: Target | None, backend: Backend) -> Array:
    """Return the fold of each training row, int8 in 1..n_folds, shape (n_rows,), on the host.

    The number of rows of a class differs by at most 1 between folds, and so does the number of all rows: each row is
    drawn by a hash of seed and position, then the fewest rows that balance the folds are moved at random. With several
    targets, the sets of their classes replace the classes. The rows of a group are in one fold; the largest groups are
    distributed first, each to the fold with the fewest rows, as by scikit-learn's GroupKFold.

    Folds depend on the positions of the rows among all training rows, so partitions and threads do not change them.
    `target`, of all rows, is on the host, and `backend` is the host's.
    """
    if target is not None and target.groups is not None:
        return _folds_of_groups(target.groups, n_folds, make_generator(seed, "folds of encodings"))
    fold = np.empty(n_rows, np.int8)
    engine = backend.reductions(n_rows)

    def draw(out: Array, start: int, stop: int) -> None:
        engine.fold(start, seed, n_folds, out[start:stop])

    map_row_blocks(backend, draw, [fold], n_rows)
    strata, n_strata = _strata(target, n_rows)
    cells = fold - np.int8(1)
    if strata is not None:
        cells = cells.astype(code_storage(n_strata * n_folds))
        cells += strata.astype(cells.dtype) * cells.dtype.type(n_folds)
    counts = np.zeros(n_strata * n_folds, np.int64)
    engine.count(cells, counts)
    _balance(fold, cells, counts.reshape(n_strata, n_folds), make_generator(seed, "folds of encodings"))
    return fold


def _strata(target: Target | None, n_rows: int) -> tuple[Array | None, int]:
    """Return the code of the class of each row, or of its set of classes, and their number; None without classes."""
    codes, n_strata = None, 1
    for own in () if target is None else target.each:
        if own.n_classes < 2:
            continue
        classes = own.values.astype(code_storage(own.n_classes))
        if codes is None:
            codes, n_strata = classes, own.n_classes
        else:  # consecutive codes before the next target, so that no product of class counts overflows
            sets, codes = np.unique(codes.astype(np.int64) * own.n_classes + classes, return_inverse=True)
            n_strata = len(sets)
    return codes, n_strata


def _balance(fold: Array, cells: Array, counts: Array, generator: np.random.Generator) -> None:
    """Move rows between the folds until the rows of each stratum are divided as equally as those of all strata.

    `fold`: int8 from 1 on, written in place. `cells`: ``stratum * n_folds + fold - 1`` of each row. `counts`: the rows
    of each cell, int64, shape (n_strata, n_folds).
    """
    n_folds = counts.shape[1]
    # Rows in the order of their strata are dealt in turn, like cards.
    ends = np.cumsum(counts.sum(axis=1))[:, None]
    place = np.arange(n_folds)
    dealt = (ends - place + n_folds - 1) // n_folds
    excess = counts - np.diff(dealt, axis=0, prepend=0)
    for stratum in np.flatnonzero(excess.any(axis=1)).tolist():
        wanted = np.repeat(place + 1, np.maximum(-excess[stratum], 0))
        over = np.flatnonzero(excess[stratum] > 0).tolist()
        moved = [
            generator.choice(np.flatnonzero(cells == stratum * n_folds + k), excess[stratum, k], replace=False)
            for k in over
        ]
        fold[np.concatenate(moved)] = generator.permutation(wanted)


def _folds_of_groups(groups: Array, n_folds: int, generator: np.random.Generator) -> Array:
    """Return the fold of each row, from 1 on, so that the rows of a group are in one fold."""
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = generator.permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    loads = [(0, k) for k in range(1, n_folds + 1)]
    chosen = np.empty(len(sizes), np.int8)
    for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        load, k = loads[0]
        chosen[group] = k
        heapq.heapreplace(loads, (load + size, k))
    return chosen[codes]
