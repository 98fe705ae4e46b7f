"""Comparison of the history of a query with that of its model, on generated events: a model records none."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from gpupipe.errors import ArtifactError
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.inference.sql.dialect import TITLES, Expr, SqlDialect
from gpupipe.inference.sql.engines import FIX, ROW_COLUMN, ROWS_TABLE, open_engine
from gpupipe.inference.sql.history.event_rows import is_time
from gpupipe.inference.sql.history.rows import write_history
from gpupipe.inference.sql.history.tables import HistoryTables
from gpupipe.inference.sql.inputs import SqlInput, code_value, number_value
from gpupipe.inference.sql.query import SqlQuery
from gpupipe.io.compute_formula import formula_columns
from gpupipe.io.filter_expression import parse_where
from gpupipe.io.row_steps import apply_steps, raw_columns
from gpupipe.random_streams import make_generator
from gpupipe.table.encode import encode_served
from gpupipe.table.schema import Column
from gpupipe.units import DAY_US, TICKS_PER_SECOND, parse_time_us

if TYPE_CHECKING:
    from gpupipe.inference.model import Model
    from gpupipe.io.settings import JoinedTable
    from gpupipe.typing import HostArray

SEED = 0
N_ROWS = 150
N_EVENTS = 900
N_KEYS = 9
LONGEST = 400 * DAY_US  # from an event to the cut-off
TOLERANCE = 1e-5  # of the largest value
TABLE = "gpupipe_events_"


def compare_history(model: Model, tables: HistoryTables, dialect: SqlDialect, uri: str | None) -> int:
    """Return the number of generated rows for which the derived columns of a query are those of the model.

    Raise ArtifactError if one differs, ConfigError if the engine refuses the query.
    """
    where, host = str(model.folder), model.backend.host
    generated = _Generator(tables)
    rows, events = generated.rows(), {name: generated.events(name) for name in tables.derivation.tables}
    encoded = encode_served(rows, host, tables.derivation.schema)
    given = {name: apply_steps(each, tables.events.tables[name]) for name, each in events.items()}
    found = tables.derivation.run(encoded, rows, given, host, tables.as_of)

    names = {name: f"{TABLE}{i}" for i, name in enumerate(events, 1)}
    own = HistoryTables(
        tables.derivation, tables.events, {name: exp.to_table(each) for name, each in names.items()}, tables.as_of
    )
    before, source = write_history(dialect, exp.to_table(ROWS_TABLE), own, [ROW_COLUMN])
    query = SqlQuery(dialect)
    columns = {name: found.schema[name] for name in tables.derivation.made}
    values = {f"x{i}": query.define(_value(query, each)) for i, each in enumerate(columns.values())}
    text = query.select(source, [ROW_COLUMN], values, before).sql(dialect.name)
    numbered = dict(zip(rows.column_names, rows.columns, strict=True))
    numbered[ROW_COLUMN] = pa.chunked_array([pa.array(range(len(rows)), pa.int64())])
    further = {names[name]: each for name, each in events.items()}
    with open_engine(dialect.name, numbered, uri, where, further) as engine:
        computed = engine.run(text)
    for (name, column), values_here in zip(columns.items(), (computed[each] for each in values), strict=True):
        wanted = host.to_host(found.column(name)).astype(np.float64)
        _require_equal(name, values_here, wanted, bool(column.n_codes), f"{TITLES[dialect.name]}", where)
    return len(rows)


def _value(query: SqlQuery, column: Column) -> Expr:
    return code_value(query, SqlInput.of(column)) if column.n_codes else number_value(query, column)


def _require_equal(name: str, found: HostArray, wanted: HostArray, is_code: bool, engine: str, where: str) -> None:
    scale = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0))
    limit = 0.0 if is_code else TOLERANCE
    same = np.isclose(found.astype(np.float64), wanted, rtol=limit, atol=limit * scale, equal_nan=True)
    if not same.all():
        i = int(np.flatnonzero(~same)[0])
        what = f"{engine} computes {found[i]} for {name} of generated events; the model computes {wanted[i]}"
        raise ArtifactError(what, where=where, fix=FIX)


@dataclass
class _Generator:
    """Random rows and events around the cut-offs, at distinct times, with nulls in all columns."""

    tables: HistoryTables

    def __post_init__(self) -> None:
        self.random = make_generator(SEED, "generated events")
        cut_offs = [self.tables.cut_off(op) for op in self.tables.derivation.ops if isinstance(op, KeyedOp)]
        dates = [each for each in cut_offs if isinstance(each, int) and each > 1]
        self.now = dates[0] if dates else parse_time_us("2024-01-31")

    def rows(self) -> pa.Table:
        """Return rows of the main table."""
        schema = {column.source: column for column in self.tables.derivation.schema}
        names = self.tables.derivation.inputs
        found = pa.table({name: self._column(schema.get(name), N_ROWS) for name in names})
        return self.tables.events.with_cut_off(found, self.tables.as_of, names)

    def events(self, name: str) -> pa.Table:
        """Return rows of an event table, before its steps."""
        settings, own = self.tables.events.tables[name], self.tables.derivation.tables[name]
        schema = {column.source: column for column in own.schema}
        if settings.group_by is not None:
            made = settings.group_by.made()
            schema = {made.get(each, (each, ""))[0]: column for each, column in schema.items()}
        literals = _literals(settings)
        found = {}
        for raw in raw_columns(settings, [*own.inputs, *own.right]):
            column = schema.get(raw)
            if raw in literals and raw not in own.right:
                found[raw] = self._near(literals[raw])
            else:
                found[raw] = self._column(column, N_EVENTS)
        return pa.table(found)

    def _column(self, column: Column | None, n: int) -> pa.Array:
        """Return values of a column; keys have none, and are small numbers."""
        if column is None:
            return self._some(self.random.integers(1, N_KEYS + 1, n).tolist(), pa.int64())
        kind = SqlInput.of(column).type
        if column.kind == "datetime":
            times = self._times(n)
            if kind == "time":
                return self._some(times, pa.timestamp("us"))
            ticks = TICKS_PER_SECOND[column.time_format or "us"]
            return self._some([time * ticks // 1_000_000 for time in times], pa.int64())
        if column.kind == "numeric":
            return self._some(self._numbers(n), pa.float64())
        levels = ["false", "true"] if column.kind == "boolean" else [*(column.levels or ())[:6]]
        if kind == "boolean":
            return self._some([level == "true" for level in self._chosen(levels, n)], pa.bool_())
        if kind == "number":
            numbers = {"false": 0.0, "true": 1.0}
            return self._some([numbers.get(each) or float(each) for each in self._chosen(levels, n)], pa.float64())
        unseen = [] if column.kind == "boolean" else ["a level of no row"]
        return self._some(self._chosen([*levels, *unseen], n), pa.string())

    def _near(self, literals: Sequence[Any]) -> pa.Array:
        """Return values near those that a filter compares a column with."""
        if isinstance(literals[0], str):
            if is_time(literals[0]):
                return self._some(self._times(N_EVENTS), pa.timestamp("us"))
            return self._some(self._chosen([*literals, "another"], N_EVENTS), pa.string())
        if isinstance(literals[0], bool):
            return self._some(self._chosen([True, False], N_EVENTS), pa.bool_())
        near = np.add.outer([float(each) for each in literals], [-1.0, 0.0, 1.0, 2.0]).ravel()
        return self._some(self._chosen([*near, *-near], N_EVENTS), pa.float64())

    def _times(self, n: int) -> list[int]:
        distances = np.exp(self.random.uniform(math.log(1e6), math.log(LONGEST), 4 * n)).astype(np.int64)
        distances *= self.random.choice([-1, 1], 4 * n, p=[0.7, 0.3])
        found = np.unique(distances)
        return [self.now + each for each in self.random.permutation(found)[:n].tolist()]

    def _numbers(self, n: int) -> list[float]:
        found: list[float] = np.round(self.random.normal(2, 10, n), 2).tolist()
        return found

    def _chosen(self, values: Sequence[Any], n: int) -> list[Any]:
        return [values[i] for i in self.random.integers(0, len(values), n).tolist()]

    def _some(self, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        """Return values of which one in twelve is null."""
        is_null = self.random.random(len(values)) < 1 / 12
        return pa.array(values, kind, mask=is_null)


def _literals(settings: JoinedTable) -> dict[str, list[Any]]:
    """Return the values that `where` compares each column with; a number for each that is computed with."""
    grouped = {} if settings.group_by is None else settings.group_by.columns
    computed = chain.from_iterable(map(formula_columns, settings.compute.values()))
    added = (name for name, functions in grouped.items() if {"sum", "mean"} & {*functions})
    found: dict[str, list[Any]] = {name: [0] for name in (*computed, *added) if name not in settings.compute}
    tree, names = parse_where(settings.where) if settings.where else (ast.Constant(None), {})
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = list(ast.walk(node))
            values = [part.value for part in parts if isinstance(part, ast.Constant) and part.value is not None]
            named = [names[part.id] for part in parts if isinstance(part, ast.Name)]
            found |= {name: [*values, *found.get(name, [])] for name in named if values}
    return found
