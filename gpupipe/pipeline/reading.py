"""The first stage: files to an encoded table, or the encoded table of an earlier run from the cache."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from gpupipe.backends.base import Backend
from gpupipe.config import Config
from gpupipe.errors import SchemaError
from gpupipe.features.selection import resolve
from gpupipe.readers.cache import Cache
from gpupipe.readers.join import read_joined
from gpupipe.table.arrange import select
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import Declared


@dataclass(frozen=True)
class ReadTable:
    """The table of a run.

    Attributes
    ----------
    table : Table
    notes : tuple of str
        What was repaired, left out, or found in the cache.
    """

    table: Table
    notes: tuple[str, ...] = ()


def read_table(config: Config, backend: Backend) -> ReadTable:
    """Read, join and encode the tables of a configuration.

    Raises
    ------
    DataError
        If a file cannot be read, or there are no rows.
    SchemaError
        If the data contradicts what is declared.
    """
    cache = Cache.of(config.source, config.tables)  # the paths were resolved when the configuration was loaded
    if cache is not None and (cached := cache.load()) is not None:
        return ReadTable(cached, (f"encoded earlier, found in the cache: {cache.path.name[:12]}",))
    loaded = read_joined(config.source, config.tables)
    table = _drop_kinds(encode(loaded.table, backend, _declarations(config)), config)
    notes = list(loaded.notes)
    del loaded
    # Arrow keeps what it has freed, which is more than the encoded table: the matrix will need that memory.
    pa.default_memory_pool().release_unused()
    if cache is not None:
        notes += cache.store(table)
    return ReadTable(table, tuple(notes))


def _declarations(config: Config) -> dict[str, Declared]:
    declared = config.source.declarations()
    for joined in config.tables.values():
        keys = joined.on.right  # not in the joined table: the left side has them
        declared |= {f"{joined.prefix}{n}": kind for n, kind in joined.declarations().items() if n not in keys}
    return declared


def _drop_kinds(table: Table, config: Config) -> Table:
    """Drop the columns that ``drop: ["@text"]`` means: kinds are known after reading only."""
    kinds = {column.name: column.kind for column in table.schema if column.name != config.source.target}
    selectors = [name for name in config.source.drop if name.startswith("@")]
    gone = resolve(selectors, kinds) if selectors else []
    if len(gone) == len(kinds):
        raise SchemaError("no column is left to learn from", where="source.drop", fix="drop fewer")
    return select(table, table.schema.without(gone)) if gone else table
