"""Rows to predict: a table, further tables and a cut-off, checked and converted to Arrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpupipe.errors import ConfigError, DataError, did_you_mean
from gpupipe.inference.prediction.input_source import strips_texts
from gpupipe.io.event_settings import AS_OF
from gpupipe.io.files import mask
from gpupipe.io.row_steps import apply_steps, raw_columns
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import plain_arrow, read_arrow
from gpupipe.rules.enforcement import enforce_served
from gpupipe.table.frames import rows_to_arrow
from gpupipe.units import parse_time_us

if TYPE_CHECKING:
    from gpupipe.inference.interface import LoadedModel
    from gpupipe.table.blocks import Table

BATCH_ROWS = 1_048_576  # rows whose feature matrix is in memory at once
EXPLAINED_ROWS, INTERACTION_ROWS = 65_536, 2_048  # rows that are explained at once, without and with interactions


@dataclass(frozen=True)
class RowsToPredict:
    """Rows to predict.

    `source` is the table, or, if the rows are `encoded`, the function from names of columns to a table of them.
    """

    source: pa.Table | Callable[[Sequence[str]], pa.Table]
    events: Mapping[str, pa.Table]  # the further tables
    as_of: int | None  # the cut-off in microseconds since 1970-01-01 UTC
    names: tuple[str, ...] = ()  # the columns, if the rows are encoded
    encoded: Table | None = None

    @cached_property
    def arrow(self) -> pa.Table:
        """The rows before they are encoded."""
        return self.source if self.encoded is None else self.source(self.names)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.arrow.num_rows) if self.encoded is None else self.encoded.n_rows

    def column(self, name: str) -> pa.ChunkedArray:
        """Return a column of `arrow`."""
        return self.arrow.column(name) if self.encoded is None else self.source((name,)).column(name)

    def between(self, start: int, stop: int) -> RowsToPredict:
        """Return the rows from `start` to `stop`, exclusive, without a copy."""
        return RowsToPredict(self.arrow.slice(start, stop - start), self.events, self.as_of)


def rows_to_predict(model: LoadedModel, data: Any, tables: Any, as_of: Any) -> RowsToPredict:
    """Return the arguments of `gpupipe.Model.predict` as rows to predict; raise its errors if they are invalid."""
    strip = strips_texts(model.manifest["reading"])
    if not tables and as_of is None and model.few_rows is not None:
        encoded = model.few_rows.encode(data)
        if encoded is not None:
            read = partial(_columns_to_arrow, data, strip)
            return RowsToPredict(read, {}, None, model.inputs, encoded)
    require_known(model, tables)
    made = [AS_OF] if model.events.entities is not None and AS_OF in model.inputs else []  # may come from `as_of`
    required = [name for name in model.inputs if name not in made]
    optional = [*made, *(each.column for each in model.rules)]
    arrow = _to_arrow(data, model.source_of, required, optional, strip, model.features.input_schema.lists)
    is_path = isinstance(data, (str, Path))
    label = mask(str(data) if is_path else data.label if isinstance(data, TableSource) else "the given table")
    for warning in enforce_served(arrow, model.rules, model.backend, label):
        model.backend.note(warning)
    now = parse_cut_off(as_of)
    return RowsToPredict(model.events.with_cut_off(arrow, now, model.inputs), _read_events(model, tables), now)


def _columns_to_arrow(data: Any, strip: bool, names: Sequence[str]) -> pa.Table:
    return plain_arrow(rows_to_arrow(data, names), strip)


def entities_to_predict(model: LoadedModel, tables: Any, as_of: Any) -> RowsToPredict:
    """Return the arguments of `gpupipe.Model.predict_entities` as rows: one per key with an event before `as_of`."""
    model.events.require_entities(model.inputs)
    now = parse_cut_off(as_of)
    if now is None:
        raise ConfigError("as_of: expected a date, a datetime or ISO text; got None")
    events = _read_events(model, tables, for_rows=True)
    return RowsToPredict(model.events.rows(events, now), events, now)


def require_known(model: LoadedModel, tables: Any) -> None:
    """Raise ConfigError unless the further tables are event tables of the model."""
    if not isinstance(tables, Mapping | None):
        raise ConfigError(f"tables: expected a dict of table names to tables; got {type(tables).__name__}")
    known = model.events.tables
    if unknown := [name for name in tables or {} if name not in known]:
        reads = f"the model reads {', '.join(known)}" if known else "the model reads no further tables"
        hint = did_you_mean(unknown[0], known) or (
            f"remove the table: {reads}; a table that training joined is joined before prediction: its columns are "
            "columns of the rows"
        )
        raise ConfigError(f"unknown further table {unknown[0]!r}", fix=hint)


def _read_events(model: LoadedModel, tables: Any, *, for_rows: bool = False) -> dict[str, pa.Table]:
    require_known(model, tables)
    known, tables = model.events.tables, tables or {}
    needed = model.events.columns(model.features.derivation, for_rows=for_rows)
    model.events.require(list(tables), needed)
    found = {}
    for name, columns in needed.items():
        raw = raw_columns(known[name], columns)
        strip = known[name].csv.strip and "strip" in model.manifest["reading"]
        arrow = _to_arrow(tables[name], partial(model.event_source, name), raw, (), strip)
        is_read = isinstance(tables[name], str | Path | TableSource)  # its reader has applied the steps
        found[name] = arrow if is_read else apply_steps(arrow, known[name])
    return found


def _to_arrow(
    data: Any,
    source_of: Callable[[str], TableSource],
    required: Sequence[str],
    optional: Sequence[str],
    strip: bool,
    lists: Sequence[str] = (),
) -> pa.Table:
    if isinstance(data, TableSource):
        return read_arrow(data, may_be_empty=True).table
    if isinstance(data, (str, Path)):
        if not str(data).strip():
            raise DataError("expected a path; got an empty string")
        return read_arrow(source_of(str(data)), may_be_empty=True).table
    return plain_arrow(rows_to_arrow(data, required, optional, lists), strip)


def parse_cut_off(as_of: Any) -> int | None:
    """Return a cut-off in microseconds since 1970-01-01 UTC; raise ConfigError if it is not a time."""
    if as_of is None:
        return None
    if not isinstance(as_of, str | date):
        raise ConfigError(f"as_of: expected a date, a datetime or ISO text; got {type(as_of).__name__}")
    try:
        return parse_time_us(as_of if isinstance(as_of, str) else as_of.isoformat())
    except ValueError as error:
        raise ConfigError(str(error), where="as_of") from None
