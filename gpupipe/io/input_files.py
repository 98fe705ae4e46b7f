"""Input files of a configuration, listed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Self

from gpupipe.io.file_formats import has_reader
from gpupipe.io.files import SourceFile, find_files
from gpupipe.io.hook import hook_file
from gpupipe.io.in_memory import FORMAT as MEMORY
from gpupipe.io.settings import JoinedTable, TableSource


@dataclass(frozen=True)
class InputFiles:
    """Files of all tables of a configuration, with their identity at the time of listing.

    A run lists its files once. Opening a file later checks that its identity is unchanged, and cache and checkpoint
    keys include it. Files that are added to a folder during the run are ignored.

    `source`: files of the main table; empty if its rows are built from events. `tables`: files of the other tables, by
    name.
    """

    source: tuple[SourceFile, ...]
    tables: Mapping[str, tuple[SourceFile, ...]]

    @classmethod
    def find(cls, source: TableSource, tables: Mapping[str, TableSource] | None = None) -> Self:
        """Return the files of a main table and of other tables; see `input_files`."""
        tables = tables or {}
        joined = (table for table in tables.values() if isinstance(table, JoinedTable))
        keys = list(chain.from_iterable(table.on.left for table in joined))
        return cls(input_files(source, keys), {name: input_files(table, keys) for name, table in tables.items()})

    @property
    def is_untyped(self) -> bool:
        """True if files of the main table are CSV, where every value is text."""
        return any(file.format == "csv" for file in self.source)

    @property
    def all(self) -> list[SourceFile]:
        """The files of all tables, those of the main table first."""
        return list(chain(self.source, *self.tables.values()))


def input_files(source: TableSource, also: Sequence[str] = ()) -> tuple[SourceFile, ...]:
    """Return the files of a source with their identities, without reading them; external tables are copied now.

    `also` are columns of an external table that are needed although ``columns:`` and ``drop:`` exclude them. Raise
    DataError or ConfigError if a file is missing, or an external table cannot be copied.
    """
    if source.generate:
        files = [SourceFile(f"generate:{source.generate}:{source.seed}", source.rows, 0, "generator")]
    elif source.frame is not None:
        frame = source.frame
        files = [SourceFile(frame.label, frame.n_bytes, 0, MEMORY, version=frame.digest)]
    elif source.is_external:
        from gpupipe.io.external.tables import copy_external  # here: few configurations need it

        files = [copy_external(source, also)]
    else:
        files = find_files(source)
    return (*files, hook_file(source.prepare)) if source.prepare else tuple(files)


def data_files(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Return the files that contain rows: without the prepare hook and generated tables."""
    return [file for file in files if has_reader(file.format)]
