"""First stage of a run: read the tables of a configuration into one encoded table.

The first reader in `READERS` that applies is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from gpupipe.backends.base import Backend, DeviceBackend
from gpupipe.config import Config
from gpupipe.features.history.derivation import DerivedOp, derived_ops
from gpupipe.features.history.tables import DerivationSources, EventTable, HistoryRows
from gpupipe.features.program.selection import select_dropped
from gpupipe.io.cache import TableCache
from gpupipe.io.chunks.parquet_stream import open_parquet_stream
from gpupipe.io.device.join import RawColumns, key_columns, may_be_text
from gpupipe.io.device.obstacles import READ_ON_HOST, UnsupportedOnDevice, is_read_on_host, require_plain
from gpupipe.io.device.source_reader import FrameStream, read_frame
from gpupipe.io.input_files import InputFiles
from gpupipe.io.isolation import end_trials
from gpupipe.io.join import declarations, read_joined
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.io.source_reader import LoadedTable, read_arrow
from gpupipe.names import count_noun
from gpupipe.table.arrange import move_table
from gpupipe.table.blocks import EncodedTable, Table
from gpupipe.table.device.encode import FrameChunks, encode_frame
from gpupipe.table.encode import encode
from gpupipe.table.encode_chunks import encode_chunks
from gpupipe.table.schema import DeclaredColumn
from gpupipe.table.time_columns import read_as_times
from gpupipe.timeline.timeline import Level
from gpupipe.training.preparation.rules import NO_RULES, RuleResults, enforce, include_ruled_columns, rule_only_columns
from gpupipe.user_warnings import WarningNote

if TYPE_CHECKING:
    from gpupipe.partitions.table import PartitionedTable
    from gpupipe.partitions.workers import Workers

TableT = TypeVar("TableT", bound=EncodedTable)


@dataclass(frozen=True)
class ReadTable(Generic[TableT]):
    """Table of a run as read."""

    table: TableT
    notes: tuple[str, ...] = ()  # repairs, dropped columns, and use of the cache
    sources: DerivationSources | None = None  # the tables from which columns are derived; None if no op derives columns
    rules: RuleResults = NO_RULES  # results of the rules of ``data:``

    def leveled_notes(self, config: Config) -> Iterator[tuple[str, Level]]:
        """Yield the notes, those about formats of times that were inferred, and the warnings of rules, with levels."""
        texts = {("text", column.name) for column in self.table.schema if column.kind == "text"}
        others = texts.union(("missing", name) for name in config.source.targets)  # have another warning
        for note in self.notes:
            is_known = isinstance(note, WarningNote) and (note.fate, note.column) in others
            yield note, "warning" if isinstance(note, WarningNote) and not is_known else "info"
        declared = declarations(config.source, config.tables)
        for column in self.table.schema:
            if column.time_format and column.name in declared and declared[column.name].time_format is None:
                yield read_as_times(column.name, column.time_format), "warning"
            if column.unread:
                yield column.unread, "warning"
        for warning in self.rules.warnings:
            yield warning, "warning"


@dataclass(frozen=True)
class TableInputs:
    """Table to read, with the tables joined to it."""

    source: TableSource
    tables: Mapping[str, JoinedTable]
    files: InputFiles
    backend: Backend  # the backend that holds the result
    # Key columns that derived ops need in raw form. None if nothing is derived, so that no raw column is kept.
    keys: Sequence[str] | None = None
    # The ops that derive columns from this table; a device also keeps the texts that they name in raw form.
    ops: Sequence[DerivedOp] = ()
    section: str = "source"  # the configuration section of the source: ``source`` or ``tables.NAME``

    @property
    def declared(self) -> dict[str, DeclaredColumn]:
        """The columns declared in ``schema:``."""
        return declarations(self.source, self.tables)

    @property
    def is_on_host(self) -> bool:
        """True if the host reads the table by design, for any backend."""
        return self.backend.name == "cpu" or is_read_on_host(self.files, self.tables)

    @cached_property
    def cache(self) -> TableCache | None:
        """The entry of the cache; None if there is none, as when raw columns are needed, which it does not have."""
        if self.keys is not None or not isinstance(self.source, Source):
            return None
        return TableCache.of(self.source, self.tables, files=self.files)


@dataclass(frozen=True)
class EncodedRows:
    """Result of a reader."""

    table: Table
    notes: Sequence[str] = ()
    # Raw columns, if columns are derived: all of them on the host, keys and texts on a device.
    raw_columns: MutableMapping[str, Any] = field(default_factory=dict)
    events: Mapping[str, LoadedTable] = field(default_factory=dict)  # the event tables that the rows were built from


def _read_from_cache(inputs: TableInputs) -> EncodedRows | None:
    assert inputs.cache is not None
    table = inputs.cache.load()
    if table is None:
        return None
    return EncodedRows(
        move_table(table, inputs.backend), [f"encoded table found in the cache: {inputs.cache.path.name[:12]}"]
    )


def _read_on_device(inputs: TableInputs) -> EncodedRows | None:
    """Read with the device's readers, in chunks if memory is short; return None if the host must read."""
    backend = inputs.backend
    source = inputs.source
    tables = inputs.tables
    files = inputs.files
    assert isinstance(backend, DeviceBackend)
    try:
        require_plain(source, tables, files, has_reader=not backend.lacks("cudf"))
        free = backend.free_bytes()
        if inputs.keys is None and (
            rows := open_parquet_stream(source, tables, free, on_device=True, files=files.source)
        ):
            backend.note(rows.note)
            stream = FrameStream(rows, backend)
            access = FrameChunks(backend, stream.rules)
            table = encode_chunks(stream.columns, backend, rows.n_rows, inputs.declared, access)
            return EncodedRows(table, list(stream.notes))
        loaded = read_frame(source, backend, tables, files=files)
    except UnsupportedOnDevice as obstacle:
        backend.fall_back(obstacle.what, obstacle.where.replace("source", inputs.section), obstacle.fix)
        return None
    declared, names = inputs.declared, list(inputs.keys or ())
    loaded.columns.update(key_columns(loaded.columns, names, loaded.rules, backend))
    texts = [name for name, column in loaded.columns.items() if may_be_text(column, declared.get(name))]
    names += chain.from_iterable(op.raw_columns(texts) for op in inputs.ops)
    raw = RawColumns(loaded.columns, names, loaded.rules, backend)
    table = encode_frame(loaded.columns, backend, declared, rules=loaded.rules)
    return EncodedRows(table, list(loaded.notes), raw)


def _read_in_chunks(inputs: TableInputs) -> EncodedRows | None:
    """Read Parquet by row groups; return None if all rows fit in memory or are needed at once."""
    available = inputs.backend.memory().available
    stream = open_parquet_stream(inputs.source, inputs.tables, available, files=inputs.files.source)
    if stream is None:
        return None
    inputs.backend.note(stream.note)
    table = encode_chunks(stream.tables, inputs.backend, stream.n_rows, inputs.declared)
    return EncodedRows(table, list(stream.notes))


def _read_at_once(inputs: TableInputs) -> EncodedRows:
    if inputs.section != "source" and inputs.backend.name == "gpu" and inputs.is_on_host:
        inputs.backend.note(f"{inputs.section}: {READ_ON_HOST}")
    if isinstance(inputs.source, Source):
        loaded = read_joined(inputs.source, inputs.tables, files=inputs.files)
    else:
        loaded = read_arrow(inputs.source, files=inputs.files.source)
    table = encode(loaded.table, inputs.backend, inputs.declared)
    if inputs.keys is None:
        return EncodedRows(table, list(loaded.notes))
    columns = dict(zip(loaded.table.column_names, loaded.table.columns, strict=True))
    return EncodedRows(table, list(loaded.notes), columns, loaded.events)


class TableReader(NamedTuple):
    """Reader of tables: whether it applies, and its function, which returns None to defer to the next reader."""

    applies: Callable[[TableInputs], bool]
    read: Callable[[TableInputs], EncodedRows | None]
    fills_cache: bool = False


READERS = (
    TableReader(lambda inputs: inputs.cache is not None, _read_from_cache),
    # No cache: a table read on a device would have to be copied to the host to be stored.
    TableReader(lambda inputs: not inputs.is_on_host, _read_on_device),
    TableReader(lambda inputs: inputs.keys is None, _read_in_chunks, fills_cache=True),
    TableReader(lambda inputs: True, _read_at_once, fills_cache=True),
)


def _read_rows(inputs: TableInputs) -> tuple[EncodedRows, TableReader]:
    """Return the result of the first reader that can read the table, and that reader."""
    for reader in READERS:
        if reader.applies(inputs) and (found := reader.read(inputs)) is not None:
            # Arrow's pool keeps freed memory, more than the encoded table; the matrix will need it.
            pa.default_memory_pool().release_unused()
            return found, reader
    raise AssertionError("the last reader reads everything")


def read_table(config: Config, backend: Backend, files: InputFiles | None = None) -> ReadTable[Table]:
    """Read, join and encode the tables of a configuration, whose `files` may have been listed already.

    Raise DataError if a file cannot be read, or there are no rows; SchemaError if the data contradicts the declared
    schema or the rules of ``data:``.
    """
    files = InputFiles.find(config.source, config.tables) if files is None else files
    ruled, derived = include_ruled_columns(config), derived_ops(config.features)
    inputs = TableInputs(ruled.source, ruled.tables, files, backend, _main_keys(config) if derived else None, derived)
    try:
        found, reader = _read_rows(inputs)
        table, notes = _drop_kinds(found.table, ruled, found.notes), tuple(found.notes)
        if inputs.cache is not None and reader.fills_cache:
            notes += tuple(inputs.cache.store(table))
        rule_only = rule_only_columns(config, table.schema)
        read = _enforce_rules(ReadTable(table, notes), config, backend, files)
        if not derived:
            return read
        for name in found.raw_columns.keys() & rule_only:
            del found.raw_columns[name]
        main = HistoryRows(read.table, found.raw_columns, "the table", unknown=config.source.targets)
        events, event_notes = _read_events(config, backend, files, found.events)
        sources = DerivationSources(main, events, backend)
        return replace(read, notes=(*notes, *event_notes), sources=sources)
    finally:
        end_trials()  # training needs the memory


def read_on_workers(
    config: Config, workers: Workers, backend: Backend, files: InputFiles | None = None
) -> ReadTable[PartitionedTable]:
    """Read the tables of a configuration on the workers of a cluster, as `read_table` does in this process."""
    from gpupipe.partitions.read import read_partitions

    files = InputFiles.find(config.source, config.tables) if files is None else files
    found = read_partitions(include_ruled_columns(config), workers, files=files)
    return _enforce_rules(ReadTable(found.table, (*found.notes, *found.partition_notes)), config, backend, files)


def _enforce_rules(found: ReadTable[TableT], config: Config, backend: Backend, files: InputFiles) -> ReadTable[TableT]:
    """Check the rules; return the table without the columns that only rules need."""
    rules, gone = enforce(found.table, config, backend, files), rule_only_columns(config, found.table.schema)
    table = found.table.select(found.table.schema.without(gone)) if gone else found.table
    return replace(found, table=table, rules=rules)


def _drop_kinds(table: Table, config: Config, notes: Iterable[str]) -> Table:
    """Drop columns selected by kind, as by ``drop: ["@text"]``; kinds are known only after reading."""
    kinds = {column.name: column.kind for column in table.schema}
    gone = select_dropped(config.source.drop, kinds, config.source.targets, config.source.checked, notes)
    return table.select(table.schema.without(gone)) if gone else table


def _main_keys(config: Config) -> list[str]:
    """Return the columns of the main table that derived ops need in raw form."""
    keys = [op.key_columns() for op in derived_ops(config.features)]
    keys += [table.on.left for table in config.tables.values() if not table.is_joined]
    return list(chain.from_iterable(keys))


def _read_events(
    config: Config, backend: Backend, files: InputFiles, read: Mapping[str, LoadedTable]
) -> tuple[dict[str, EventTable], list[str]]:
    """Return the event tables, read unless they are in `read`, and notes about repairs."""
    events, notes = {}, []
    for name, settings in config.tables.items():
        if settings.is_joined:
            continue
        if (loaded := read.get(name)) is not None:
            table = encode(loaded.table, backend, settings.declarations())
            rows = HistoryRows.of_arrow(table, loaded.table, f"table {name!r}")
            of_table: Sequence[str] = list(loaded.notes)
        else:
            own = InputFiles(files.tables[name], {})
            found, _ = _read_rows(TableInputs(settings, {}, own, backend, settings.on.right, (), f"tables.{name}"))
            rows, of_table = HistoryRows(found.table, found.raw_columns, f"table {name!r}"), found.notes
        events[name] = EventTable(rows, settings.on.left, settings.on.right)
        unread = [WarningNote(f"table {name!r}: {column.unread}") for column in rows.table.schema if column.unread]
        notes += [f"table {name!r}: {count_noun(rows.n_rows, 'row')}", *of_table, *unread]
    return events, notes
