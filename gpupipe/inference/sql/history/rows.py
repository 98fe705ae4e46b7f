"""Rows with their derived columns, as common tables of a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from gpupipe.features.ops.difference import Difference
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.inference.sql.dialect import Expr, SqlDialect, all_of, integer, is_null
from gpupipe.inference.sql.history.event_rows import event_rows, raw_column
from gpupipe.inference.sql.history.figures import WRITERS
from gpupipe.inference.sql.history.seen_events import HAPPENED, ROWS_TABLE, SqlHistory, select_columns
from gpupipe.inference.sql.history.tables import HistoryTables
from gpupipe.inference.sql.inputs import SqlInput, time_value
from gpupipe.inference.sql.query import SqlQuery, common_tables
from gpupipe.table.schema import Column
from gpupipe.units import parse_duration_us

if TYPE_CHECKING:
    from gpupipe.io.event_settings import Entities


def write_rows(
    dialect: SqlDialect, source: Expr, tables: HistoryTables, columns: Sequence[str]
) -> tuple[list[str], list[exp.CTE], exp.Table]:
    """Return the columns to copy, common tables, and the last one: see `write_history`."""
    keys, before = list(dict.fromkeys(tables.keys)), list[exp.CTE]()
    entities = tables.events.entities
    if tables.of_events:
        assert entities is not None and tables.as_of is not None
        settings = tables.events.tables[entities.table]
        pairs = dict(zip(settings.on.right, settings.on.left, strict=True))
        keys = list(dict.fromkeys([*keys, *pairs.values()]))
        before, source = _entities(dialect, tables, pairs, entities), exp.to_table("history_entities")
    found, rows = write_history(dialect, source, tables, [*columns, *keys])
    return keys, [*before, *found], rows


def _entities(
    dialect: SqlDialect, tables: HistoryTables, pairs: Mapping[str, str], entities: Entities
) -> list[exp.CTE]:
    """Return the common tables of one row for each key with an event before the cut-off."""
    settings, name = tables.events.tables[entities.table], str(tables.events.tables[entities.table].time)
    declared = settings.declarations().get(name)
    time = Column(name, "datetime", "timestamp[us]", time_format=declared.time_format if declared else None)
    steps = event_rows(settings, tables.tables[entities.table], [*pairs, name], dialect)
    query = SqlQuery(dialect, "history_entities_")
    events = query.select(
        exp.to_table("history_entities_table"),
        list(pairs),
        {HAPPENED: query.define(time_value(query, SqlInput.of(time)))},
    )
    happened, now = raw_column(HAPPENED), tables.as_of or 0
    conditions: list[Expr] = [happened < integer(now)]
    if entities.active_within is not None:
        conditions.append(happened.copy() >= integer(now - parse_duration_us(entities.active_within)))
    conditions += [exp.Not(this=is_null(raw_column(key))) for key in pairs]
    rows = select_columns("history_entities_events", pairs).where(all_of(conditions), copy=False).distinct(copy=False)
    return [
        *common_tables("history_entities_table", steps, dialect),
        *common_tables("history_entities_events", events, dialect),
        *common_tables("history_entities", rows, dialect),
    ]


def write_history(
    dialect: SqlDialect, source: Expr, tables: HistoryTables, columns: Sequence[str]
) -> tuple[list[exp.CTE], exp.Table]:
    """Return common tables, and the last one: the rows of `source` with raw `columns` and the derived columns."""
    histories: dict[Any, SqlHistory] = {}
    for op in tables.derivation.ops:
        assert isinstance(op, KeyedOp)
        is_shift_of_rows = isinstance(op, Difference) and op.has_own_history
        own = op.model_copy(update={"current": True}) if is_shift_of_rows else op
        view = (own.table, own.key, own.time, own.as_of, own.current, own.gap_us)
        if view not in histories:
            histories[view] = SqlHistory(dialect, tables, own, len(histories) + 1)
        for name, figure in WRITERS[type(op)](op, histories[view]):
            histories[view].figures[op.column_name(name)] = figure
    read = dict.fromkeys([*columns, *tables.derivation.inputs])
    raw = [name for name in read if name not in tables.derivation.made and name not in tables.given]
    rows = SqlQuery(dialect, f"{ROWS_TABLE}_")
    marks = dict(chain.from_iterable(each.marks(rows).items() for each in histories.values()))
    found = common_tables(ROWS_TABLE, rows.select(source, raw, marks), dialect, is_shared=True)
    for each in histories.values():
        found += each.tables()
    joined = exp.Select(expressions=[exp.alias_(raw_column(name, "r"), name, quoted=True) for name in raw])
    joined = joined.from_(exp.alias_(exp.to_table(ROWS_TABLE), "r", table=True), copy=False)
    for each in histories.values():
        joined = each.join(joined)
    return [*found, *common_tables("history_source", joined, dialect)], exp.to_table("history_source")
