"""Rows to predict: the table, the further tables and the cut-off, as a model takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpupipe.errors import ConfigError, DataError, did_you_mean
from gpupipe.features.spans import time_us
from gpupipe.pipeline.input_source import event_source
from gpupipe.pipeline.rules import enforce_served
from gpupipe.readers.files import mask
from gpupipe.readers.read import plain_arrow, read_arrow
from gpupipe.readers.settings import TableSource
from gpupipe.table.frames import frame_to_arrow, rows_to_arrow

if TYPE_CHECKING:
    from gpupipe.pipeline.model import Model


@dataclass(frozen=True)
class RowsToPredict:
    """Rows to predict.

    Attributes
    ----------
    arrow : pyarrow.Table
    events : mapping of str to pyarrow.Table
        The further tables.
    as_of : int, optional
        The cut-off in microseconds since 1970-01-01 UTC.
    """

    arrow: pa.Table
    events: Mapping[str, pa.Table]
    as_of: int | None

    def between(self, start: int, stop: int) -> RowsToPredict:
        """Return the rows from `start` up to `stop`; nothing is copied."""
        return replace(self, arrow=self.arrow.slice(start, stop - start))


def rows_to_predict(model: Model, data: Any, tables: Any, as_of: Any) -> RowsToPredict:
    """Return what `gpupipe.Model.predict` was given; raise its errors, also where rules of ``data:`` are broken."""
    arrow = _arrow(data, model.source_of, model.inputs, [each.column for each in model.rules])
    is_path = isinstance(data, (str, Path))
    label = mask(str(data) if is_path else data.label if isinstance(data, TableSource) else "the given table")
    for warning in enforce_served(arrow, model.rules, model.backend, label):
        model.backend.remark(warning)
    return RowsToPredict(arrow, _events(model, tables), _cut_off(as_of))


def as_arrow(data: Any) -> pa.Table:
    """Return a frame as the readers would deliver it: the same nulls, the same types; see `frame_to_arrow`."""
    return plain_arrow(frame_to_arrow(data))


def _events(model: Model, tables: Any) -> dict[str, pa.Table]:
    if not isinstance(tables, Mapping | None):
        raise ConfigError(f"tables: expected a dict of table names to tables; got {type(tables).__name__}")
    derivation, tables = model.features.derivation, tables or {}
    needed = {} if derivation is None else derivation.tables
    if strange := [name for name in tables if name not in needed]:
        reads = f"it reads {', '.join(needed)}" if needed else "the features are made of the rows to score alone"
        hint = did_you_mean(strange[0], needed) or f"leave the table out: {reads}"
        raise ConfigError(f"the model reads no further table {strange[0]!r}", fix=hint)
    source_of = partial(event_source, reading=model.manifest["reading"], features=model.features)
    return {name: _arrow(table, partial(source_of, name=name), needed[name].inputs) for name, table in tables.items()}


def _arrow(
    data: Any, source_of: Callable[[str], TableSource], required: Sequence[str], optional: Sequence[str] = ()
) -> pa.Table:
    if isinstance(data, TableSource):
        return read_arrow(data, may_be_empty=True).table
    if isinstance(data, (str, Path)):
        if not str(data).strip():
            raise DataError("an empty path names no file")
        return read_arrow(source_of(str(data)), may_be_empty=True).table
    return plain_arrow(rows_to_arrow(data, required, optional))


def _cut_off(as_of: Any) -> int | None:
    if as_of is None:
        return None
    if not isinstance(as_of, str | date):
        raise ConfigError(f"as_of: expected a date, a datetime or ISO text; got {type(as_of).__name__}")
    return time_us(as_of if isinstance(as_of, str) else as_of.isoformat())
