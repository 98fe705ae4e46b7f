"""Rows and labels of the main table, built from an event table: ``source: {entities: ...}``.

The terms are those of Featuretools and Kumo. An *entity* is a key, such as a customer. Its *cut-off* separates the
events that features use (before it) from those that define the label (from it to the end of the prediction window).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import ConfigError, DataError
from gpupipe.io.event_settings import AS_OF, Entities, EventLabel
from gpupipe.io.filter import require_column
from gpupipe.io.input_files import InputFiles
from gpupipe.io.missing_values import TEXT
from gpupipe.io.notes import Notes
from gpupipe.io.row_steps import as_floats, times_of, with_column
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.io.source_reader import LoadedTable, read_arrow
from gpupipe.table.keys import key_codes, key_values
from gpupipe.table.schema import NAT
from gpupipe.table.time_columns import is_text
from gpupipe.typing import Array
from gpupipe.units import DAY_US, parse_duration_us, parse_time_us


def read_entities(source: Source, tables: Mapping[str, JoinedTable], files: InputFiles | None = None) -> LoadedTable:
    """Read the event tables of `source` and return its rows, with the cut-off and the label of each.

    The rows are sorted by cut-off, then by key. `LoadedTable.events` holds the event tables.

    Raise ConfigError if the prediction window of a cut-off ends after the last event; DataError if no event is before a
    cut-off, or a file cannot be read; SchemaError if a column is missing or has the wrong type.
    """
    entities = source.entities
    assert entities is not None
    names = dict.fromkeys([entities.table, *([entities.label.table] if entities.label else [])])
    found = InputFiles.find(source, tables) if files is None else files
    events = {name: read_arrow(tables[name], files=found.tables[name]) for name in names}
    cut_offs = [parse_time_us(date) for date in entities.as_of]
    table = entity_rows(events[entities.table].table, tables[entities.table], entities, cut_offs)
    notes = Notes()
    for name in names:
        notes.include(events[name].notes)
    notes.add(_row_note(table, entities, tables[entities.table].on.left))
    if entities.label is not None:
        assert isinstance(source.target, str)
        label = _labels(table, events[entities.label.table].table, tables[entities.label.table], entities, cut_offs)
        table = table.append_column(source.target, label)
        notes.add(f"{source.target}: {_describe(entities.label)}")
    read = list(chain.from_iterable(events[name].files for name in names))
    return LoadedTable(table, read, notes, tuple(table.column_names), events)


def entity_rows(events: pa.Table, settings: JoinedTable, entities: Entities, cut_offs: Sequence[int]) -> pa.Table:
    """Return one row per cut-off and key with an event before it: the key columns and ``as_of``.

    `cut_offs` are microseconds since 1970-01-01 UTC, ascending. Raise DataError if no event is before a cut-off;
    SchemaError if a column is missing, or the time column has no times.
    """
    label = f"table {entities.table!r}"
    times = _times(events, settings, label)
    keys = pa.table({left: _key(events, right, label) for left, right in _pairs(settings)})
    is_key = np.ones(len(times), bool)
    for column in keys.columns:
        is_key &= column.is_valid().to_numpy()
    parts = []
    for cut_off in cut_offs:
        first = -(2**63) + 1 if entities.active_within is None else cut_off - parse_duration_us(entities.active_within)
        seen = is_key & (times < cut_off) & (times >= first) & (times != NAT)
        if not seen.any():
            since = "" if entities.active_within is None else f", within {entities.active_within}"
            raise DataError(
                f"no key of {label} has an event before the cut-off {_iso(cut_off)}{since}",
                where="source.entities.as_of",
                fix=_range_of(times),
            )
        found = keys.filter(pa.array(seen)).group_by(settings.on.left, use_threads=False).aggregate([])
        found = found.sort_by([(name, "ascending") for name in settings.on.left])
        parts.append(found.append_column(AS_OF, _repeated(cut_off, found.num_rows)))
    rows = pa.concat_tables(parts).combine_chunks()
    columns = [c.dictionary_encode().cast(TEXT) if is_text(c.type) else c for c in rows.columns]
    return pa.table(columns, names=rows.column_names)


def add_cut_off(rows: pa.Table, as_of: int) -> pa.Table:
    """Return `rows` with the column ``as_of`` set to `as_of` (microseconds since 1970-01-01 UTC)."""
    return with_column(rows, AS_OF, _repeated(as_of, rows.num_rows))


def _repeated(cut_off: int, n_rows: int) -> pa.Array:
    return pa.array(np.full(n_rows, cut_off, "int64")).cast(pa.timestamp("us"))


def _pairs(settings: JoinedTable) -> list[tuple[str, str]]:
    return list(zip(settings.on.left, settings.on.right, strict=True))


def _key(events: pa.Table, name: str, label: str) -> pa.ChunkedArray:
    return key_values(events.column(require_column(events.column_names, name, label)))


def _times(events: pa.Table, settings: JoinedTable, label: str) -> Array:
    """Return the event times in microseconds since 1970-01-01 UTC, NAT for nulls."""
    assert settings.time is not None
    times = times_of(events, settings.time, settings.declarations().get(settings.time), label)
    micros: Array = pc.fill_null(times.cast(pa.int64()), NAT).to_numpy()
    return micros


def _labels(
    rows: pa.Table, events: pa.Table, settings: JoinedTable, entities: Entities, cut_offs: Sequence[int]
) -> pa.ChunkedArray:
    label = entities.label
    assert label is not None
    where = f"table {label.table!r}"
    times = _times(events, settings, where)
    horizon = parse_duration_us(label.within)
    _require_complete(times, cut_offs, horizon, entities, label)
    for _, right in _pairs(settings):
        require_column(events.column_names, right, where)
    mine, theirs = key_codes(rows, settings.on.left, events, settings.on.right, where)
    keys, of_events = (pc.fill_null(codes, -1).to_numpy(zero_copy_only=False) for codes in (mine, theirs))
    values = None
    if label.column is not None:
        values = as_floats(
            events.column(require_column(events.column_names, label.column, where)), label.column, where
        ).to_numpy()
    cut_off_of_rows = rows.column(AS_OF).cast(pa.int64()).to_numpy()
    n_keys = int(of_events.max(initial=-1)) + 1
    result = np.zeros(rows.num_rows)
    for cut_off in cut_offs:
        inside = (of_events >= 0) & (times >= cut_off) & (times < cut_off + horizon)
        if values is not None:
            inside &= ~np.isnan(values)
        of_keys = _reduced(label.function, of_events[inside], None if values is None else values[inside], n_keys)
        here = cut_off_of_rows == cut_off
        known = here & (keys >= 0)
        result[here] = 0.0 if label.function in ("none", "any", "count", "sum") else np.nan
        result[known] = of_keys[keys[known]]
    return _as_target(result, label)


def _reduced(function: str, keys: Array, values: Array | None, n_keys: int) -> Array:
    """Return the reduced values, or the number of events, per key."""
    n = np.bincount(keys, minlength=n_keys).astype(np.float64)
    if function in ("none", "any", "count"):
        return n
    if function in ("sum", "mean"):
        total = np.bincount(keys, weights=values, minlength=n_keys)
        return total if function == "sum" else np.divide(total, n, out=np.full(n_keys, np.nan), where=n > 0)
    assert values is not None
    reduced = np.full(n_keys, np.inf if function == "min" else -np.inf)
    (np.minimum if function == "min" else np.maximum).at(reduced, keys, values)
    return np.where(n > 0, reduced, np.nan)


def _as_target(values: Array, label: EventLabel) -> pa.ChunkedArray:
    if label.function in ("none", "any"):
        made = pa.array((values > 0) == (label.function == "any"))
    elif label.at_least is not None:
        made = pa.array(values >= label.at_least, mask=np.isnan(values))
    elif label.function == "count":
        made = pa.array(values.astype(np.int64))
    else:
        made = pa.array(values, mask=np.isnan(values))
    return pa.chunked_array([made])


def _require_complete(
    times: Array, cut_offs: Sequence[int], horizon: int, entities: Entities, label: EventLabel
) -> None:
    """Raise ConfigError if a prediction window ends after the last event: its labels would be censored."""
    last = int(times.max(initial=NAT))
    if last == NAT:
        raise DataError(
            f"table {label.table!r} has no event with a time",
            fix="check the column set as `time`",
            names=[label.table],
        )
    end = last + 1
    if horizon % DAY_US == 0:  # for windows of whole days, treat the day of the last event as complete
        end = (last // DAY_US + 1) * DAY_US
    if entities.until is not None:
        end = parse_time_us(entities.until)
    late = [cut_off for cut_off in cut_offs if cut_off + horizon > end]
    if late:
        raise ConfigError(
            f"the label for cut-off {_iso(late[0])} needs events up to {_iso(late[0] + horizon)}; "
            f"table {label.table!r} ends on {_iso(end if entities.until else last)}",
            where="source.entities",
            fix=f"set a cut-off of {_iso(end - horizon)} or earlier, or a window shorter than {label.within}; if the "
            f"events are complete up to a later date, set it: until: {_iso(late[0] + horizon)}",
            names=[label.table],
        )


def _row_note(table: pa.Table, entities: Entities, keys: Sequence[str]) -> str:
    dates = entities.as_of
    when = f"before {dates[0]}" if len(dates) == 1 else f"before each of {len(dates)} cut-offs, the first {dates[0]}"
    active = f", within {entities.active_within} of the cut-off" if entities.active_within else ""
    return f"{table.num_rows:,} rows: each {', '.join(keys)} with an event in {entities.table!r} {when}{active}"


def _describe(label: EventLabel) -> str:
    least = "" if label.at_least is None else f" is at least {label.at_least:g}"
    of = label.table if label.column is None else f"{label.table}.{label.column}"
    return f"{label.function} of {of} within {label.within} after the cut-off{least}"


def _range_of(times: Array) -> str:
    known = times[times != NAT]
    if not len(known):
        return "none of its events has a time: check the time column"
    return f"its events range from {_iso(known.min())} to {_iso(known.max())}: choose a cut-off in that range"


def _iso(micros: int) -> str:
    """Return a time in ISO format, as a date if it is midnight."""
    moment = datetime.fromtimestamp(int(micros) / 1e6, UTC).replace(tzinfo=None)
    return moment.date().isoformat() if moment.time() == datetime.min.time() else moment.isoformat(timespec="seconds")
