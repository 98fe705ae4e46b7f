"""Counts of single rows in the cells of a reference, without Arrow: the twin of `gpupipe.inference.drift.cell_counter`.

Rows are counted as they were encoded for the prediction, so a value has the cell that it has in a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe.inference.drift.counted_column import CountedColumn, counted_columns
from gpupipe.inference.drift.reference import FIRST_LEVEL_CELL, NULL_CELL, OTHER_CELL, DriftColumn
from gpupipe.table.blocks import layout
from gpupipe.table.cell_encoders import EncodeByTable, cell_encoder, refuse_type
from gpupipe.table.level_text import canonical_text
from gpupipe.table.row_encoder import Row, RowEncoder
from gpupipe.table.schema import Column
from gpupipe.typing import Array
from gpupipe_kernels.program.program import block_id
from gpupipe_kernels.reduce.numpy import engine
from gpupipe_kernels.rows.records import KIND_OF_BLOCK, Cells, Records


@dataclass(frozen=True)
class PredictedRows:
    """Rows with their predictions.

    `records`, shape (n,), are the encoded rows, as in `RowCells`; `scores` are the values of each score that is
    counted; `rows` are the raw values, empty if `RowCellCounter.needs_rows` is false.
    """

    records: Records
    scores: Sequence[list[Any]]
    rows: Sequence[Row] = ()

    def __getitem__(self, part: slice) -> PredictedRows:
        return PredictedRows(self.records[part], [values[part] for values in self.scores], self.rows[part])


CountCells = Callable[[PredictedRows], Array]
"""Returns the counts of the cells of a column, int64, shape (n_cells,)."""


class RowCellCounter:
    """Counter of single rows in the cells of input columns and scores.

    The `columns` are input columns of the encoder that are not derived. The `scores` are among the `outputs`, the names
    of the outputs of the model. Values of rare types are encoded by `by_table`, which refuses them by default. Raise
    ValueError if a column has cells of another form than its values, or a score is not an output.

    - `n_cells`: of all columns and scores
    - `dtype`: of the records that are counted
    - `positions`: position of each score among the outputs
    - `needs_rows`: True if raw values are counted: those of texts, and the levels of hashed columns
    """

    def __init__(
        self,
        columns: Sequence[DriftColumn],
        scores: Sequence[DriftColumn],
        encoder: RowEncoder,
        outputs: Sequence[str],
        by_table: EncodeByTable = refuse_type,
    ) -> None:
        self.columns, self.scores = tuple(columns), tuple(scores)
        if unknown := [each.name for each in scores if each.name not in outputs]:
            raise ValueError(f"score {unknown[0]!r:.40} is not an output of the model")
        places = layout(encoder.schema)
        texts = [column for column in columns if column.form == "presence"]
        encoded = counted_columns([column for column in columns if column.form != "presence"], encoder.schema)
        counts: dict[str, CountCells] = {each.name: _count_texts(each, by_table) for each in texts}
        for each in encoded:
            if each.reference.is_hashed:
                counts[each.reference.name] = _count_raw_levels(each, by_table)
                continue
            assert each.column is not None
            block, row = places[each.column.name]
            kind = KIND_OF_BLOCK[block_id(block)]
            position = encoder.positions[block_id(block), row]
            counts[each.reference.name] = _count_encoded(each, Cells._fields[kind], position)
        self.dtype = encoder.layout.dtype
        self._counts = [counts[each.name] for each in columns]
        self._counts += [_count_score(each, i) for i, each in enumerate(scores)]
        self.positions = tuple(outputs.index(each.name) for each in scores)
        self.needs_rows = any(each.form == "presence" or each.is_hashed for each in columns)
        ends = np.cumsum([0, *(len(each.counts) for each in (*columns, *scores))]).tolist()
        self._spans = [slice(*ends[i : i + 2]) for i in range(len(self._counts))]
        self.n_cells = int(ends[-1])

    def count_steps(self, rows: PredictedRows, cells: Array) -> Iterator[None]:
        """Add the counts of rows to `cells`, int64, shape (n_cells,), one column or score per step."""
        for span, count in zip(self._spans, self._counts, strict=True):
            cells[span] += count(rows)
            yield

    def by_column(self, cells: Array) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the counts of each column, and of each score, by name."""
        n = len(self.columns)
        columns = {each.name: cells[span] for each, span in zip(self.columns, self._spans[:n], strict=True)}
        return columns, {each.name: cells[span] for each, span in zip(self.scores, self._spans[n:], strict=True)}


def _count_encoded(each: CountedColumn, field: str, position: int) -> CountCells:
    """Return the counter of a column of numbers, times or codes."""
    reference = each.reference
    if reference.edges is not None:
        assert each.column is not None
        edges = reference.edges.astype(each.column.storage)
        return lambda rows: _bin(np.ascontiguousarray(rows.records[field][:, position]), edges)
    cell_of_code, n_cells = each.cell_of_code, len(reference.counts)
    return lambda rows: np.bincount(cell_of_code[rows.records[field][:, position]], minlength=n_cells)


def _bin(x: Array, edges: Array) -> Array:
    counts = np.zeros(len(edges) + 2, np.int64)
    engine.bin(x, edges, counts)
    return counts


def _count_raw_levels(each: CountedColumn, by_table: EncodeByTable) -> CountCells:
    """Return the counter of a hashed column: several levels have the code of a bucket, so raw values are counted."""
    name, cell_of_code = each.reference.name, each.cell_of_code
    encode, n_cells = cell_encoder(each.counted, by_table), len(each.reference.counts)
    return lambda rows: np.bincount(cell_of_code[[encode(row[name]) for row in rows.rows]], minlength=n_cells)


def _count_texts(reference: DriftColumn, by_table: EncodeByTable) -> CountCells:
    """Return the counter of nulls and values of a column of texts or lists."""
    name = reference.name
    is_list = reference.kind == "list"
    column = Column(name, "list", "list<number or text>") if is_list else Column(name, "text", "string")
    encode = cell_encoder(column, by_table)

    def count(rows: PredictedRows) -> Array:
        n_null = sum(encode(row[name]) is None for row in rows.rows)
        return np.array([n_null, len(rows.rows) - n_null])

    return count


def _count_score(reference: DriftColumn, position: int) -> CountCells:
    """Return the counter of a score: numbers, or labels as text."""
    if reference.edges is not None:
        edges = reference.edges.astype(np.float64)
        return lambda rows: _bin(np.array(rows.scores[position], np.float64), edges)
    known = {level: FIRST_LEVEL_CELL + i for i, level in enumerate(reference.levels or ())}

    def count(rows: PredictedRows) -> Array:
        found = np.zeros(len(reference.counts), np.int64)
        for label, n in Counter(rows.scores[position]).items():
            text = label if isinstance(label, str) else canonical_text(label)
            found[known.get(text, OTHER_CELL) if text else NULL_CELL] += n
        return found

    return count
