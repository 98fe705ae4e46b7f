"""Encoding of single rows: raw Python values to the cells of an encoded table, without Arrow.

`gpupipe.table.cell_encoders` has the rules of each kind.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np

from gpupipe.errors import CellProblem, DataError, RowError, describe_spelling
from gpupipe.names import show_value
from gpupipe.table.blocks import layout as table_layout
from gpupipe.table.cell_encoders import (
    EXACT,
    CellEncoder,
    EncodeByTable,
    UnfitCell,
    cell_encoder,
    refuse_type,
)
from gpupipe.table.level_text import level_codes
from gpupipe.table.schema import FIRST_LEVEL, LARGEST, NULL, UNSEEN, Column, Schema
from gpupipe_kernels.program.program import block_id
from gpupipe_kernels.rows.records import KIND_OF_BLOCK, Cells, RecordLayout, Records, cells_of

ABSENT = "absent"
MOST_PROBLEMS = 100

Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class RowCells:
    """Encoded rows.

    `records` are a read-only structured array of `RecordLayout.dtype`, shape (n,). `coded` has the name of each column
    of ``codes`` that can be unseen, else ``""``. `warnings` are violations of rules that only warn.
    """

    records: Records
    coded: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.records.flags.writeable = False  # compiled code sees one array type, however the rows were put together

    def __repr__(self) -> str:
        return f"RowCells({self.n_rows} rows)"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.records)

    @property
    def cells(self) -> Cells:
        """The cells by kind."""
        return cells_of(self.records)

    @property
    def n_unseen(self) -> dict[str, int]:
        """Number of rows whose level was unseen in training, by column; columns without such rows are absent."""
        counts = (self.records["codes"] == UNSEEN).sum(axis=0).tolist()
        return {name: n for name, n in zip(self.coded, counts, strict=True) if n and name}

    def __getitem__(self, rows: slice) -> RowCells:
        return RowCells(self.records[rows], self.coded)

    @staticmethod
    def concatenate(parts: Sequence[RowCells]) -> RowCells:
        """Return the rows of all `parts`, of one encoder, in order."""
        if len(parts) == 1:
            return parts[0]
        warnings = tuple(dict.fromkeys(chain.from_iterable(part.warnings for part in parts)))
        # `np.concatenate` would remove the padding between the fields.
        content = b"".join(part.records.tobytes() for part in parts)
        return RowCells(np.frombuffer(content, parts[0].records.dtype), parts[0].coded, warnings)


class CellDeriver(Protocol):
    """Columns that are computed from an input column, such as features of a text or list."""

    @property
    def source(self) -> Column:
        """The input column, of kind ``text`` or ``list``."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the derived columns."""

    def values(self, cells: Sequence[Any], /) -> Any:
        """Return the values of each derived column, of shape (len(cells),).

        They are float32, or levels of a categorical column, None where null.
        """


class RowEncoder:
    """Encoder of rows for a frozen schema. Threads may share it.

    `schema` has the columns of the cells. The `derivers` compute some of these columns; every row must have the
    `Column.source` of the others. `by_table` is for values of rare types; by default they are refused. `inputs` are the
    columns that every row must have, and `columns` their description. `positions` has the position of each (block, row)
    among the cells of its kind, as `RowProgram` takes it.

    Examples
    --------
    >>> from gpupipe.table.schema import Column
    >>> schema = Schema((Column("age", "numeric", "int64", storage="float32"),
    ...                  Column("plan", "categorical", "string", storage="int8", levels=("a", "b"))))
    >>> cells = RowEncoder(schema).encode([{"age": "31", "plan": "b"}, {"age": None, "plan": "z"}]).cells
    >>> cells.single.tolist(), cells.codes.tolist()
    ([[31.0], [nan]], [[4], [1]])
    """

    def __init__(
        self, schema: Schema, derivers: Sequence[CellDeriver] = (), by_table: EncodeByTable = refuse_type
    ) -> None:
        derived = set(chain.from_iterable(deriver.columns for deriver in derivers))
        given = [column for column in schema if column.name not in derived]
        self.schema = schema
        self.positions: dict[tuple[int, int], int] = {}
        kinds: tuple[list[Column], ...] = ([], [], [], [])
        places = table_layout(schema)
        for name in [*(column.name for column in given), *sorted(derived & set(places))]:  # derived columns come last
            block, row = places[name]
            of_kind = kinds[KIND_OF_BLOCK[block_id(block)]]
            self.positions[block_id(block), row] = len(of_kind)
            of_kind.append(schema[name])
        single, double, times, codes = kinds
        n_given = sum(column.name not in derived for column in single)
        self.layout = layout = RecordLayout(len(double), len(single), len(times), len(codes))
        given_codes = [column for column in codes if column.name not in derived]
        derived_bytes = 4 * (len(single) - n_given) + layout.gap
        end = 4 * (len(codes) - len(given_codes)) + layout.end
        self._struct = struct.Struct(f"={len(double)}d{n_given}f{derived_bytes}x{len(times)}q{len(given_codes)}i{end}x")

        encoders = {column.name: cell_encoder(column, by_table) for column in given}
        self._numbers = [(column.source, encoders[column.name]) for column in (*double, *single[:n_given])]
        self._times = [(column.source, encoders[column.name]) for column in times]
        self._codes = [(column.source, level_codes(column), encoders[column.name]) for column in given_codes]
        named = [c.name not in derived and c.kind == "categorical" and c.levels is not None for c in codes]
        self._coded = tuple(c.source if is_named else "" for c, is_named in zip(codes, named, strict=True))
        at = {c.name: ("single", position) for position, c in enumerate(single)}
        at |= {c.name: ("codes", position) for position, c in enumerate(codes)}
        self._code_of = {column.name: _codes_of(column) for column in codes if column.name in derived}
        self._derivers = []
        for deriver in derivers:
            places_of = [(i, name, *at[name]) for i, name in enumerate(deriver.columns) if name in at]
            self._derivers.append((deriver, cell_encoder(deriver.source, by_table), places_of))
        self._encoders = [(column, encoders[column.name]) for column in given]
        self._encoders += [(deriver.source, encode) for deriver, encode, _ in self._derivers]
        self.columns = tuple({column.source: column for column, _ in self._encoders}.values())
        self.inputs = tuple(column.source for column in self.columns)

    def encode(self, rows: Sequence[Row]) -> RowCells:
        """Encode rows.

        Values are str, int, float, bool, None, datetime, date, or a NumPy or pandas scalar, by column name; other keys
        are ignored. None and NaN are null. Raise RowError if a row lacks a column, or a value does not match the kind
        of its column; it lists all such cells. Raise DataError if a row is not a mapping.
        """
        pack, packed = self._pack, []
        try:
            for row in rows:
                packed.append(pack(row))
        except (KeyError, UnfitCell, struct.error, OverflowError, TypeError, AttributeError):
            self._require_valid(rows)
            raise
        records = np.frombuffer(b"".join(packed), self.layout.dtype)
        return RowCells(self._with_derived(records, rows) if self._derivers else records, self._coded)

    def _with_derived(self, records: Records, rows: Sequence[Row]) -> Records:
        records = records.copy()
        try:
            for deriver, encode, places in self._derivers:
                values = deriver.values([encode(row[deriver.source.source]) for row in rows])
                for i, name, kind, position in places:
                    own = values[i] if kind == "single" else list(map(self._code_of[name], values[i]))
                    records[kind][:, position] = own
        except (KeyError, UnfitCell):
            self._require_valid(rows)
            raise
        return records

    def _pack(self, row: Row) -> bytes:
        values: list[Any] = []
        add = values.append
        for name, encode in self._numbers:
            value = row[name]
            if type(value) is float:
                add(value if -LARGEST <= value <= LARGEST else math.nan)
            elif type(value) is int and -EXACT <= value <= EXACT:
                add(value)
            else:
                add(encode(value))
        for name, encode in self._times:
            add(encode(row[name]))
        for name, levels, encode in self._codes:
            value = row[name]
            kind = type(value)
            code = levels.get(value) if kind is str or kind is np.str_ else None
            add(encode(value) if code is None else code)
        return self._struct.pack(*values)

    def _require_valid(self, rows: Sequence[Row]) -> None:
        """Raise the error for all cells that cannot be encoded, if there are any."""
        problems: list[CellProblem] = []
        for position, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise DataError(f"expected a dict per row; got {type(row).__name__} in row {position}")
            for column, encode in self._encoders:
                if (problem := _problem(column, encode, row)) is not None:
                    problems.append(CellProblem(position, column.source, *problem))
            if len(problems) >= MOST_PROBLEMS:
                break
        if problems:
            raise RowError(list(dict.fromkeys(problems)))


def _codes_of(column: Column) -> Callable[[str | None], int]:
    """Return the function from a level of a derived column, None where null, to its code."""
    codes: dict[str | None, int] = {level: code for code, level in enumerate(column.levels or (), FIRST_LEVEL)}
    codes[None] = NULL
    return lambda level: codes.get(level, UNSEEN)


def _problem(column: Column, encode: CellEncoder, row: Row) -> tuple[str, str] | None:
    """Return the value and the expectation that it contradicts, as text; None if it can be encoded."""
    if column.source not in row:
        hint = describe_spelling(column.source, map(str, row))
        return ABSENT, "a column that the model reads" + (f"; {hint}" if hint else "")
    value = row[column.source]
    try:
        encode(value)
    except UnfitCell as unfit:
        return show_value(value), str(unfit) or column.expected
    return None
