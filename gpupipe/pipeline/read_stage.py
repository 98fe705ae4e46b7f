"""The first stage: files to an encoded table, or the encoded table of an earlier run from the cache."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.config import Config
from gpupipe.features.history.derivation import derived_ops
from gpupipe.features.history.tables import DerivationSources, EventTable, HistoryRows
from gpupipe.features.program.selection import select_dropped
from gpupipe.io.cache import TableCache
from gpupipe.io.chunks.parquet_stream import open_parquet_stream
from gpupipe.io.device.join import RawColumns, key_columns, may_be_text
from gpupipe.io.device.obstacles import UnsupportedOnDevice
from gpupipe.io.device.parquet_stream import FrameStream, open_frame_stream
from gpupipe.io.device.source_reader import LoadedFrame, read_frame
from gpupipe.io.isolation import end_trials
from gpupipe.io.join import declarations, read_joined
from gpupipe.io.settings import JoinedTable
from gpupipe.io.source_reader import LoadedTable, read_arrow
from gpupipe.pipeline.rules import NO_RULES, RuleResults, enforce, include_ruled_columns, rule_only_columns
from gpupipe.table.arrange import move_table
from gpupipe.table.blocks import EncodedTable, Table
from gpupipe.table.device.encode import encode_frame
from gpupipe.table.device.encode_chunks import encode_frame_chunks
from gpupipe.table.encode import encode
from gpupipe.table.encode_chunks import encode_chunks
from gpupipe.table.schema import DeclaredColumn

if TYPE_CHECKING:
    from gpupipe.partitions.table import PartitionedTable
    from gpupipe.partitions.workers import Workers

TableT = TypeVar("TableT", bound=EncodedTable)

NOTHING_READ: Mapping[str, LoadedTable] = {}


@dataclass(frozen=True)
class ReadTable(Generic[TableT]):
    """The table of a run.

    Attributes
    ----------
    table : Table or PartitionedTable
    notes : tuple of str
        What was repaired, left out, or found in the cache.
    sources : DerivationSources, optional
        What columns are to be derived of; None where no op derives any.
    rules : RuleResults
        Of the rules of ``data:``.
    """

    table: TableT
    notes: tuple[str, ...] = ()
    sources: DerivationSources | None = None
    rules: RuleResults = NO_RULES


def read_table(config: Config, backend: Backend) -> ReadTable[Table]:
    """Read, join and encode the tables of a configuration.

    Raises
    ------
    DataError
        If a file cannot be read, or there are no rows.
    SchemaError
        If the data contradicts what is declared, or the rules of ``data:``.
    """
    try:
        if derived_ops(config.features):  # they need keys and texts as they were read, which the cache does not keep
            return _read_with_sources(config, backend)
        return _enforced(_read(include_ruled_columns(config), backend), config, backend)
    finally:
        end_trials()  # training needs the memory


def _read(config: Config, backend: Backend) -> ReadTable[Table]:
    cache = TableCache.of(config.source, config.tables)  # the paths were resolved when the configuration was loaded
    if cache is not None and (cached := cache.load()) is not None:
        found = f"encoded earlier, found in the cache: {cache.path.name[:12]}"
        return ReadTable(move_table(cached, backend), (found,))
    if backend.name == "gpu" and not config.has_frames:
        return _read_on_device(config, backend)
    read = _read_on_host(config, backend)
    return read if cache is None else replace(read, notes=(*read.notes, *cache.store(read.table)))


def read_on_workers(config: Config, workers: Workers, backend: Backend) -> ReadTable[PartitionedTable]:
    """Read the tables of a configuration on the workers of a cluster; as `read_table`."""
    from gpupipe.partitions.read import read_partitions

    found = read_partitions(include_ruled_columns(config), workers)
    return _enforced(ReadTable(found.table, (*found.notes, *found.remarks)), config, backend)


def partition_table(table: Table, workers: Workers) -> PartitionedTable:
    """Return a table of this process as partitions on the workers."""
    from gpupipe.partitions.read import partition_table

    return partition_table(table, workers)


def _read_on_host(config: Config, backend: Backend) -> ReadTable[Table]:
    _remark_frames(config, backend)
    stream = open_parquet_stream(config.source, config.tables, backend.memory().available)
    if stream is not None:
        backend.remark(stream.remark)
        table = encode_chunks(stream.tables, backend, stream.n_rows, _declarations(config))
        pa.default_memory_pool().release_unused()
        return ReadTable(_drop_kinds(table, config), tuple(stream.notes))
    loaded = read_joined(config.source, config.tables)
    table = _drop_kinds(encode(loaded.table, backend, _declarations(config)), config)
    notes = tuple(loaded.notes)
    del loaded
    # Arrow keeps what it has freed, which is more than the encoded table: the matrix will need that memory.
    pa.default_memory_pool().release_unused()
    return ReadTable(table, notes)


def _read_on_device(config: Config, backend: Backend) -> ReadTable[Table]:
    """Read on the device what means the same there; else the host reads and encodes, and the blocks are moved.

    The table is not kept in the cache: it would have to leave the device for that, and be read by the host again.
    """
    try:
        stream = open_frame_stream(config.source, backend, config.tables)
        if stream is not None:
            return _read_on_device_in_parts(stream, config, backend)
        loaded = read_frame(config.source, backend, config.tables)
    except UnsupportedOnDevice as obstacle:
        backend.fall_back(obstacle.what, obstacle.where, obstacle.fix)
        return _read_on_host(config, backend)
    table = encode_frame(loaded.columns, backend, _declarations(config), rules=loaded.rules)
    return ReadTable(_drop_kinds(table, config), tuple(loaded.notes.lines()))


def _read_on_device_in_parts(stream: FrameStream, config: Config, backend: Backend) -> ReadTable[Table]:
    backend.remark(stream.stream.remark)
    n_rows, declared = stream.stream.n_rows, _declarations(config)
    table = encode_frame_chunks(stream.columns, backend, n_rows, declared, stream.rules)
    return ReadTable(_drop_kinds(table, config), tuple(stream.notes))


def _enforced(found: ReadTable[TableT], config: Config, backend: Backend) -> ReadTable[TableT]:
    """Return the table once its rules hold, without the columns that were read for these alone."""
    rules, gone = enforce(found.table, config, backend), rule_only_columns(config, found.table.schema)
    table = found.table.select(found.table.schema.without(gone)) if gone else found.table
    return replace(found, table=table, rules=rules)


def _read_with_sources(config: Config, backend: Backend) -> ReadTable[Table]:
    ruled = include_ruled_columns(config)
    if backend.name == "gpu" and not config.has_frames:
        try:
            loaded = read_frame(ruled.source, backend, ruled.tables)
        except UnsupportedOnDevice as obstacle:
            backend.fall_back(obstacle.what, obstacle.where, obstacle.fix)
        else:
            return _sources_of_frame(loaded, config, backend)
    _remark_frames(config, backend)
    on_host = read_joined(ruled.source, ruled.tables)
    found = _sources_of_arrow(on_host.table, config, backend, on_host.events)
    return replace(found, notes=(*on_host.notes, *found.notes))


def _remark_frames(config: Config, backend: Backend) -> None:
    if config.has_frames and backend.name == "gpu":
        backend.remark("tables in memory are encoded on the host, then moved to the device")


def _sources_of_arrow(
    arrow: pa.Table, config: Config, backend: Backend, events: Mapping[str, LoadedTable] | None = None
) -> ReadTable[Table]:
    """Return the main table as it was read with the tables of events, of which `events` have been read already."""
    raw = dict(zip(arrow.column_names, arrow.columns, strict=True))
    return _with_sources(encode(arrow, backend, _declarations(config)), raw, config, backend, events or {})


def _sources_of_frame(loaded: LoadedFrame, config: Config, backend: Backend) -> ReadTable[Table]:
    ops, declared = derived_ops(config.features), _declarations(config)
    names = [name for op in ops for name in op.key_columns()]
    names += [name for table in config.tables.values() if not table.is_joined for name in table.on.left]
    loaded.columns.update(key_columns(loaded.columns, names, loaded.rules, backend))
    texts = [name for name, column in loaded.columns.items() if may_be_text(column, declared.get(name))]
    names += [name for op in ops for name in op.raw_columns(texts)]
    raw = RawColumns(loaded.columns, names, loaded.rules, backend)
    table = encode_frame(loaded.columns, backend, declared, rules=loaded.rules)
    found = _with_sources(table, raw, config, backend)
    return replace(found, notes=(*loaded.notes.lines(), *found.notes))


def _with_sources(
    table: Table,
    raw: MutableMapping[str, Any],
    config: Config,
    backend: Backend,
    read: Mapping[str, LoadedTable] = NOTHING_READ,
) -> ReadTable[Table]:
    """Return the table once its rules hold, with the tables of events; `raw` has its columns as they were read."""
    found = ReadTable(_drop_kinds(table, include_ruled_columns(config)))
    gone, target = rule_only_columns(config, found.table.schema), config.source.target
    found = _enforced(found, config, backend)
    events, notes = _read_events(config, backend, read)
    for name in raw.keys() & gone:
        del raw[name]
    main = HistoryRows(found.table, raw, "the table", unknown=[target] if target else [])
    return replace(found, notes=tuple(notes), sources=DerivationSources(main, events, backend))


def _read_events(
    config: Config, backend: Backend, read: Mapping[str, LoadedTable]
) -> tuple[dict[str, EventTable], list[str]]:
    """Return the tables of events, read unless they are in `read`, and notes of what was repaired."""
    events, notes = {}, []
    for name, settings in config.tables.items():
        if not settings.is_joined:
            rows, said = _read_rows(name, settings, backend, read.get(name))
            events[name] = EventTable(rows, settings.on.left, settings.on.right)
            notes += [f"table {name!r}: {rows.n_rows:,} rows", *said]
    return events, notes


def _read_rows(
    name: str, settings: JoinedTable, backend: Backend, loaded: LoadedTable | None = None
) -> tuple[HistoryRows, list[str]]:
    label, declared = f"table {name!r}", settings.declarations()
    if backend.name == "gpu" and loaded is None and settings.frame is None:
        try:
            frame = read_frame(settings, backend)
        except UnsupportedOnDevice as obstacle:
            where = obstacle.where.replace("source", f"tables.{name}")
            backend.fall_back(obstacle.what, where, obstacle.fix)
        else:
            keys = key_columns(frame.columns, settings.on.right, frame.rules, backend)
            frame.columns.update(keys)
            table = encode_frame(frame.columns, backend, declared, rules=frame.rules)
            return HistoryRows(table, keys, label), frame.notes.lines()
    loaded = loaded or read_arrow(settings)
    return HistoryRows.of_arrow(encode(loaded.table, backend, declared), loaded.table, label), list(loaded.notes)


def _declarations(config: Config) -> dict[str, DeclaredColumn]:
    return declarations(config.source, config.tables)


def _drop_kinds(table: Table, config: Config) -> Table:
    """Drop the columns that ``drop: ["@text"]`` means: kinds are known after reading only."""
    kinds = {column.name: column.kind for column in table.schema}
    gone = select_dropped(config.source.drop, kinds, config.source.target, config.source.checked)
    return table.select(table.schema.without(gone)) if gone else table
