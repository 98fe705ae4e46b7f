"""Listing of the input files of a configuration, with copies of external tables pinned to the state that was read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gpupipe.backends.stage import Place
from gpupipe.config import Config
from gpupipe.io.files import SourceFile
from gpupipe.io.input_files import InputFiles
from gpupipe.io.settings import TableSource
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.preparation.rules import include_ruled_columns

TableT = TypeVar("TableT", bound=TableSource)


def find_inputs(config: Config) -> InputFiles:
    """Return the files of all tables; external tables are copied, with the columns that only rules need.

    Raise DataError or ConfigError as `gpupipe.io.input_files.input_files`.
    """
    ruled = include_ruled_columns(config)
    return InputFiles.find(ruled.source, ruled.tables)


def list_inputs(config: Config, timeline: Timeline, place: Place) -> tuple[Config, InputFiles]:
    """Return the files of all tables, and the configuration that reads the same state of external tables again.

    The copies are a stage of `timeline`, whose notes state what was copied. Versions and snapshots are set in the
    configuration; the result of a query has none.
    """
    if not any(table.is_external for table in (config.source, *config.tables.values())):
        return config, find_inputs(config)
    with timeline.stage("copy", place) as stage:
        files = find_inputs(config)
        stage.rows = sum(file.copy.n_rows for file in files.all if file.copy is not None)
        for text in copy_notes(files):
            stage.note(text)
    source = _pinned(config.source, files.source[:1])
    tables = {name: _pinned(table, files.tables[name][:1]) for name, table in config.tables.items()}
    return config.model_copy(update={"source": source, "tables": tables}), files


def copy_notes(files: InputFiles) -> list[str]:
    """Return a note about each copy of an external table."""
    return [str(file.copy) for file in files.all if file.copy is not None]


def _pinned(source: TableT, files: Sequence[SourceFile]) -> TableT:
    settings = [file.copy.settings for file in files if file.copy is not None]
    return source.model_copy(update=dict(settings[0])) if settings else source
