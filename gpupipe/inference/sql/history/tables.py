"""Event tables of a model in a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import Derivation
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.inference.prediction.events import ServedEvents
from gpupipe.inference.prediction.rows import parse_cut_off, require_known
from gpupipe.io.event_settings import AS_OF
from gpupipe.io.row_steps import raw_columns
from gpupipe.table.schema import Schema
from gpupipe.units import is_time, parse_time_us

if TYPE_CHECKING:
    from sqlglot import exp

    from gpupipe.inference.model import Model
    from gpupipe.inference.sql.export import QueryOptions


@dataclass(frozen=True)
class HistoryTables:
    """The event tables that the history ops of a model read in a database.

    `tables` are the event tables by name; `as_of` replaces the cut-off dates of the ops, in microseconds since 1970.
    Rows of one key and time are ordered by the copied columns `keys`. With `of_events`, there is one row for each key
    with an event before the cut-off.
    """

    derivation: Derivation
    events: ServedEvents
    tables: Mapping[str, exp.Table]
    as_of: int | None = None
    keys: Sequence[str] = ()
    of_events: bool = False

    @staticmethod
    def of(model: Model, options: QueryOptions, to_table: Callable[[str], exp.Table]) -> HistoryTables | None:
        """Return those of a model; None if it derives no column.

        Raise ConfigError if a table is not one of the model, or the rows cannot be built from events.
        """
        derivation, events = model.features.derivation, model.events
        as_of = parse_cut_off(options.as_of)
        require_known(model, dict(options.tables))
        if derivation is None:
            if as_of is not None:
                raise ConfigError("as_of: the model reads no events", where=str(model.folder), fix="omit it")
            return None
        of_events = options.table is None and events.entities is not None and as_of is not None
        if of_events:
            events.require_entities(model.inputs)
        names = events.columns(derivation, for_rows=of_events)
        tables = {name: to_table(options.tables.get(name, name)) for name in names}
        return HistoryTables(derivation, events, tables, as_of, options.keys, of_events)

    def lines(self) -> list[str]:
        """Return each event table with the columns that the query reads."""
        found = []
        for name, table in self.tables.items():
            settings, own = self.events.tables[name], self.derivation.tables.get(name)
            read = [*settings.on.right, *([settings.time] if self.of_events and settings.time else ())]
            read += own.inputs if own else ()
            found.append(f"{table.sql()}: {', '.join(map(json.dumps, raw_columns(settings, read)))}")
        return found

    @property
    def given(self) -> tuple[str, ...]:
        """The cut-off column of the rows, if `as_of` takes its place."""
        return (AS_OF,) if self.events.entities is not None and self.as_of is not None else ()

    def columns(self, table: str | None) -> Schema:
        """Return the encoded columns that the ops read of a further table, or of the main table."""
        return self.derivation.schema if table is None else self.derivation.tables[table].schema

    def cut_off(self, op: KeyedOp) -> int | str | None:
        """Return the cut-off of an op: a time, or a column of the main table; None: the time of the row itself."""
        if op.as_of is None:
            return None if op.table is None else 1  # events without a time are at 0
        if is_time(op.as_of):
            return parse_time_us(op.as_of) if self.as_of is None else self.as_of
        return self.as_of if op.as_of in self.given else op.as_of
