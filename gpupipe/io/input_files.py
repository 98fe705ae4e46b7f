"""Input files of a configuration, listed and identified once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from gpupipe.io.files import SourceFile, find_files
from gpupipe.io.formats.registry import FORMATS
from gpupipe.io.hook import hook_file
from gpupipe.io.in_memory import FORMAT as MEMORY
from gpupipe.io.settings import TableSource


@dataclass(frozen=True)
class InputFiles:
    """The files of all tables of a configuration, as they were when they were listed.

    A run lists them once. Whatever opens one of them later requires this identity, and the keys of caches and
    checkpoints are made of it. So files that are added to a folder during a run are not part of it.

    Attributes
    ----------
    source : tuple of SourceFile
        Of the main table; none where its rows are made of events.
    tables : mapping of str to tuple of SourceFile
        Of each further table.
    """

    source: tuple[SourceFile, ...]
    tables: Mapping[str, tuple[SourceFile, ...]]

    @classmethod
    def find(cls, source: TableSource, tables: Mapping[str, TableSource] | None = None) -> Self:
        """Return the files of a main table and of further ones.

        Raises
        ------
        DataError, ConfigError
            If a file is absent.
        """
        return cls(input_files(source), {name: input_files(table) for name, table in (tables or {}).items()})

    @property
    def all(self) -> list[SourceFile]:
        """The files of all tables, those of the main one first."""
        return [*self.source, *(file for files in self.tables.values() for file in files)]


def input_files(source: TableSource) -> tuple[SourceFile, ...]:
    """Return the identity of everything that a source is made of, without reading it.

    Raises
    ------
    DataError, ConfigError
        If a file is absent.
    """
    if source.generate:
        files = [SourceFile(f"generate:{source.generate}:{source.seed}", source.rows, 0, "generator")]
    elif source.frame is not None:
        frame = source.frame
        files = [SourceFile(frame.label, frame.table.nbytes, 0, MEMORY, version=frame.digest)]
    else:
        files = find_files(source)
    return (*files, hook_file(source.prepare)) if source.prepare else tuple(files)


def data_files(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Return those of the files of a source that hold rows: not its prepare hook, nor what is generated."""
    return [file for file in files if file.format in FORMATS]
