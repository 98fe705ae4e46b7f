"""Row counts and target sums per code, fold and class, from which all statistics of categories are computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np

from gpupipe.backends.base import Backend
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm
from gpupipe.features.program.target import Target
from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK, is_on_device, map_row_blocks
from gpupipe.table.blocks import Table, code_storage
from gpupipe.typing import Array
from gpupipe_kernels.formulas.calendar import TimeZone, local_times, part
from gpupipe_kernels.program.opcodes import NAT, PART_SIZES, CalendarPart
from gpupipe_kernels.reduce.engine import CellLayout, ReductionEngine

Tables = tuple[Array, Array]  # row counts, sums of numbers
TASKS_PER_THREAD = 4  # so that threads finish at about the same time


class CategoryCounter:
    """Counts over the rows of a table."""

    def __init__(self, table: Table, backend: Backend, engine: ReductionEngine) -> None:
        self.table = table
        self.backend = backend
        self.engine = engine

    def codes(self, names: Sequence[str]) -> list[Array]:
        """Return the row counts per code of table columns, int64, shape (n_codes,)."""
        sizes = {name: self.table.schema[name].n_codes for name in names}

        def count(name: str, start: int, stop: int) -> Array:
            counts = self.backend.xp.zeros(sizes[name], np.int64)
            self.engine.count(self.table.column(name)[start:stop], counts)
            return self.backend.to_host(counts)

        heights = [self._height(size, len(names)) for size in sizes.values()]
        found = map_row_blocks(self.backend, count, names, self.table.n_rows, heights)
        return [reduce(np.add, parts) for parts in found]

    def indices(self, columns: Sequence[CategoryExpr]) -> list[Array]:
        """Return the row counts per raw index of each column, int64, shape (size,)."""
        return [add_tables(parts)[0] for parts in self._tally([self._cells(column) for column in columns])]

    def groups(self, fold: Array, n_folds: int, target: Target) -> Array:
        """Return the group of each row: ``(fold - 1) * n_classes + class``, or without classes ``fold - 1``.

        `fold`: int8 in 1..n_folds, shape (n_rows,).
        """
        n_classes = target.n_classes
        group = self.backend.xp.empty(len(fold), code_storage(n_folds * max(1, n_classes)))

        def fill(target: Target, start: int, stop: int) -> None:
            rows = slice(start, stop)
            self.backend.xp.subtract(fold[rows], 1, out=group[rows])
            if n_classes:
                group[rows] *= n_classes
                group[rows] += target.values[rows].astype(group.dtype)

        map_row_blocks(self.backend, fill, [target], len(fold))
        return group

    def targets(self, columns: Sequence[CategoryExpr], target: Target, group: Array, n_folds: int) -> list[Tables]:
        """Return row counts and target sums per raw index and fold of each column.

        For classes: row counts of each class, int64, shape (size, n_folds * n_classes), and no sums. For regression:
        row counts, int64, and sums, float64, both of shape (size, n_folds). `group` is the result of `groups`.
        """
        return [add_tables(parts) for parts in self.target_parts(columns, target, group, n_folds, self.table.n_rows)]

    def target_parts(
        self, columns: Sequence[CategoryExpr], target: Target, group: Array, n_folds: int, many: int
    ) -> list[list[Tables]]:
        """Return the tables of `targets` for each row block, in order; `add_tables` merges them.

        `many` is the rows per block for large tables, to limit the memory of parallel tasks; 0 for the default.
        """
        n_groups = n_folds * max(1, target.n_classes)
        y = None if target.n_classes else target.values
        wider = [_wider(column, columns, self.table.n_rows) if y is None else None for column in columns]
        own = [column for column, other in zip(columns, wider, strict=True) if other is None]
        largest = self._largest(y)
        cells = [self._cells(column, (group, n_groups))._replace(y=y, largest=largest) for column in own]
        found = {column.index: parts for column, parts in zip(own, self._tally(cells, many), strict=True)}
        for column, other in zip(columns, wider, strict=True):
            if other is not None:  # sum over the further terms of the longer index
                counts, totals = add_tables(found[other.index])
                found[column.index] = [(sum_axis(counts.reshape(column.size, -1, n_groups), 1), totals)]
        return [[(n.reshape(-1, n_groups), t.reshape(-1, n_groups)) for n, t in found[c.index]] for c in columns]

    def sums(self, columns: Sequence[CategoryExpr], y: Array, group: tuple[Array, int] | None = None) -> list[Array]:
        """Return the sums of `y` per raw index and group of each column, float64, shape (size, n_groups).

        `y`: float64, shape (n_rows,). `group` is the result of `groups` and the number of groups; default: one group.
        """
        found = self.sum_parts(columns, y, group, self.table.n_rows)
        return [add_tables(parts)[1].reshape(column.size, -1) for column, parts in zip(columns, found, strict=True)]

    def sum_parts(
        self, columns: Sequence[CategoryExpr], y: Array, group: tuple[Array, int] | None, many: int
    ) -> list[list[Tables]]:
        """Return the tables of `sums` for each row block, in order, flat; `many` as in `target_parts`."""
        largest = self._largest(y)
        return self._tally([self._cells(column, group)._replace(y=y, largest=largest) for column in columns], many)

    def _largest(self, y: Array | None) -> float:
        """Return the largest absolute value of `y`, which reductions on a GPU need."""
        if y is None or not len(y) or not is_on_device(self.backend):
            return 0.0
        return float(self.backend.to_host(abs(y).max()))

    def _cells(self, column: CategoryExpr, group: tuple[Array, int] | None = None) -> CellLayout:
        """Return the cells of the raw indices of a column, crossed with `group` if given."""
        first, *others = column.index
        steps = [(*self.table.places[step.source], step.stride) for step in others]
        made: dict[str, list[Array]] = {}
        if first.op == "INDEX":
            steps.insert(0, (*self.table.places[first.source], 0))
        else:
            steps.insert(0, (*_add(made, self._made(first, column.size)), 0))
        if group is not None:
            steps.append((*_add(made, group[0]), group[1]))
        blocks = {**self.table.blocks, **{name: self._stacked(rows) for name, rows in made.items()}}
        return CellLayout(blocks, tuple(steps), column.size * (group[1] if group else 1))

    def _made(self, step: IndexTerm, size: int) -> Array:
        """Return the index that a term computes from a number or a time, shape (n_rows,)."""
        source = self.table.column(step.source)
        zones = self.table.column(step.other) if step.other else None
        out = self.backend.xp.empty(len(source), code_storage(size))

        def fill(step: IndexTerm, start: int, stop: int) -> None:
            index = None if zones is None else zones[start:stop].astype(np.int64)
            out[start:stop] = compute_index(step, source[start:stop], self.backend, index)

        map_row_blocks(self.backend, fill, [step], len(source))
        return out

    def _tally(self, cells: list[CellLayout], many: int = 0) -> list[list[Tables]]:
        heights = [self._height(c.size, len(cells)) if c.y is None else _fixed_height(c.size, many) for c in cells]
        return map_row_blocks(self.backend, self._tally_parts, cells, self.table.n_rows, heights)

    def _tally_parts(self, cells: CellLayout, start: int, stop: int) -> Tables:
        """Return the tables of some rows; sums are accumulated in blocks of fixed size, whatever the number of rows."""
        xp, to_host = self.backend.xp, self.backend.to_host
        counts, totals = xp.zeros(cells.size, np.int64), xp.zeros(0 if cells.y is None else cells.size)
        whole = cells.y is None or is_on_device(self.backend)
        first = stop if whole else min(start + ROWS_PER_BLOCK, stop)
        self.engine.tally(cells, start, first, counts, totals)
        own = xp.empty(cells.size if first < stop else 0)
        for low in range(first, stop, ROWS_PER_BLOCK):
            own[:] = 0.0
            self.engine.tally(cells, low, min(low + ROWS_PER_BLOCK, stop), counts, own)
            totals += own
        return to_host(counts), to_host(totals)

    def _stacked(self, rows: list[Array]) -> Array:
        return rows[0][None] if len(rows) == 1 else self.backend.xp.stack(rows)

    def _height(self, n_cells: int, n_columns: int) -> int:
        """Return the number of rows per task; each task counts in its own table, and the tables are added."""
        n_rows = max(1, self.table.n_rows)
        wanted = -(-TASKS_PER_THREAD * self.backend.n_threads // n_columns)
        return max(ROWS_PER_BLOCK // 4, -(-n_rows // max(1, min(wanted, n_rows // n_cells))))


def _fixed_height(n_cells: int, many: int) -> int:
    """Return the number of rows per task for float sums, with fewer tasks for large tables, to limit memory."""
    return ROWS_PER_BLOCK if 4 * n_cells <= ROWS_PER_BLOCK else max(ROWS_PER_BLOCK, many)


def add_tables(parts: Iterable[Tables]) -> Tables:
    """Return the sum of the tables of row blocks; floats are added in the order of the blocks."""
    return reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]), parts)


def _wider(column: CategoryExpr, columns: Sequence[CategoryExpr], most_cells: int) -> CategoryExpr | None:
    """Return the column with the longest index that starts with the index of `column` and has few cells, if any."""
    n = len(column.index)
    found = [c for c in columns if c.index[:n] == column.index and len(c.index) > n and c.size <= most_cells]
    return max(found, key=lambda c: len(c.index), default=None)


def _add(made: dict[str, list[Array]], column: Array) -> tuple[str, int]:
    """Add a computed column to its block, and return the block and row."""
    name = f"made_{column.dtype}"
    rows = made.setdefault(name, [])
    rows.append(column)
    return name, len(rows) - 1


def regroup(raw: Array, column: CategoryExpr) -> Array:
    """Convert sums per raw index, shape (size, ...), to sums per code, shape (n_codes, ...)."""
    if column.remap is None or not raw.size:
        return raw
    rows = np.ascontiguousarray(raw.reshape(len(raw), -1).T, np.float64)  # counts are exact up to 2**53
    sums = [np.bincount(column.remap, row, minlength=column.n_codes) for row in rows]
    return np.stack(sums, axis=1).astype(raw.dtype).reshape(-1, *raw.shape[1:])


def sum_axis(table: Array, axis: int) -> Array:
    """Return the sums over a short axis; faster than `numpy.sum`, which adds few numbers at a time there."""
    total: Array = reduce(np.add, np.moveaxis(np.asarray(table), axis, 0))
    return total


def compute_index(step: IndexTerm, source: Array, backend: Backend, zones: Array | None = None) -> Array:
    """Return the index of each value: the calendar part of a time, by the codes `zones`, or the bin of a number."""
    xp = backend.xp
    if step.op == "INDEX_PART":
        return xp.where(source == NAT, PART_SIZES[CalendarPart(step.part)], part(source, step.part))
    if step.op in ("INDEX_LOCAL_PART", "INDEX_ZONED_PART"):
        local = local_times(source, TimeZone.of(step.edges, zones is not None), xp, zones)
        return xp.where(local == NAT, 0, part(local, step.part) + 1)
    edges = backend.to_device(np.array(step.edges, np.float32))
    bins = xp.searchsorted(edges, source.astype(np.float32), side="right")
    return xp.where(xp.isnan(source), 0, bins + step.stride)
