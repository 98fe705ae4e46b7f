"""Selection of rows into new partitions; each row is copied once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.table.arrange import slice_rows
from gpupipe.table.blocks import Table, take_each
from gpupipe.typing import Array


class _Run(NamedTuple):
    """The rows start..stop of a partition, `n_rows` of which a bit mask selects."""

    part: int
    start: int
    stop: int
    bits: Array
    n_rows: int


def take_partitions(
    workers: Workers, tables: Sequence[ResultHandle[Table]], bounds: Sequence[int], mask: Array
) -> tuple[tuple[ResultHandle[Table], ...], tuple[int, ...]]:
    """Return the rows where `mask` is true in new partitions, and the number of rows of each.

    `bounds` has the first row of each table, then the number of rows. `mask`: bool, shape (n_rows,), on the host.
    """
    masks = [mask[start:stop] for start, stop in pairwise(bounds)]
    found = [0, *accumulate(int(np.count_nonzero(own)) for own in masks)]
    inner = [round(bound / ROWS_PER_BLOCK) * ROWS_PER_BLOCK for bound in found[1:-1]]
    spans = list(pairwise([0, *sorted({bound for bound in inner if 0 < bound < found[-1]}), found[-1]]))
    partitions = [_runs(masks, found, *span) for span in spans]
    homes = [int(np.argmax([run.n_rows for run in runs])) for runs in partitions]
    others = (runs[:home] + runs[home + 1 :] for runs, home in zip(partitions, homes, strict=True))
    edges = list(chain.from_iterable(others))
    sent = iter(workers.map(_take, [_given(tables, run) for run in edges], ["edge rows"] * len(edges)))
    each = [
        [*_given(tables, runs[home]), home, *(next(sent) for _ in runs[1:])]
        for runs, home in zip(partitions, homes, strict=True)
    ]
    taken = workers.map(
        _take_joined, each, ["rows of the split"] * len(each)
    )  # on the worker that holds most of the rows
    return tuple(taken), tuple(stop - start for start, stop in spans)


def _runs(masks: Sequence[Array], found: Sequence[int], start: int, stop: int) -> list[_Run]:
    """Return the places of the selected rows start..stop; `found` has the bounds of each partition."""
    runs = []
    for at, (low, high) in enumerate(pairwise(found)):
        first, end = max(start, low), min(stop, high)
        if first < end:
            rows = np.flatnonzero(masks[at])[[first - low, end - low - 1]]
            span = int(rows[0]), int(rows[1]) + 1
            runs.append(_Run(at, *span, np.packbits(masks[at][slice(*span)]), end - first))
    return runs or [_Run(0, 0, 0, np.packbits(masks[0][:0]), 0)]


def _given(tables: Sequence[ResultHandle[Table]], run: _Run) -> list[Any]:
    return [tables[run.part], run.start, run.stop, run.bits]


def _take(backend: Backend, table: Table, start: int, stop: int, bits: Array) -> Table:
    return take_each([_chosen(table, start, stop, bits)], backend)


def _take_joined(
    backend: Backend, table: Table, start: int, stop: int, bits: Array, n_before: int, *others: Table
) -> Table:
    pieces: list[tuple[Table, Array]] = [(other, np.ones(other.n_rows, bool)) for other in others]
    pieces.insert(n_before, _chosen(table, start, stop, bits))
    return take_each(pieces, backend)


def _chosen(table: Table, start: int, stop: int, bits: Array) -> tuple[Table, Array]:
    return slice_rows(table, start, stop), np.unpackbits(bits, count=stop - start).view(bool)
