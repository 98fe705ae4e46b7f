"""Explanation of files, into a CSV or Parquet file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from gpupipe.errors import ConfigError
from gpupipe.io.chunks.chunk_stream import ChunkStream, slices
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.io.input_files import input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.io.raw_columns import stored_names
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.pipeline.atomic.file import replace_file
from gpupipe.pipeline.explain.tables import contribution_table
from gpupipe.pipeline.id_columns import IdColumns, choose_columns, output_names, require_free_names
from gpupipe.pipeline.model.interface import LoadedModel
from gpupipe.pipeline.model.model import load_model
from gpupipe.pipeline.scoring.bad_rows import errors_in
from gpupipe.pipeline.scoring.local import try_event_tables
from gpupipe.pipeline.scoring.outputs import escape_formulas, require_output_file, scoring_inputs
from gpupipe.pipeline.scoring.summary import ScoreSummary
from gpupipe.table.encode_chunks import rows_counted_after

SLICE_ROWS = 65_536  # rows that are explained and written at once


def explain_file(
    model: str | Path,
    data: str,
    output: Path,
    device: str = "auto",
    tables: Mapping[str, str] | None = None,
    as_of: str | None = None,
    allow_code: bool = False,
    log: Callable[[str], None] = lambda text: None,
    *,
    ids: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    adjust: Callable[[TableSource], TableSource] = lambda source: source,
    safe_csv: bool = False,
    interactions: bool = False,
) -> ScoreSummary:
    """Write predictions and contributions of the rows of `data` to `output`, and return a summary.

    Files are read, explained and written in chunks, so that they may be larger than memory; rows whose features are
    computed from the history of other rows are in memory at once.

    Parameters
    ----------
    model, data, output, device, tables, as_of, allow_code, log, ids, keep, adjust, safe_csv
        As in `gpupipe.pipeline.scoring.local.score`.
    interactions : bool
        Write the interactions of all pairs of columns as well.

    Raises
    ------
    ConfigError
        If `output` cannot be written or would overwrite an input; if a column to copy is missing or has the name of an
        output column; or if interactions are requested of a model that does not consist of trees.
    SchemaError
        If a column is missing, or a row is bad.
    GpupipeError
        As `load_model` and `gpupipe.Model.explain`.
    """
    started = time.perf_counter()
    notes: dict[str, None] = {}

    def note(text: str) -> None:
        if text not in notes:  # once, not for every chunk
            notes[text] = None
            log(text)

    require_output_file(output)
    require_no_conflict(output, scoring_inputs(model, data, tables))
    loaded = replace(load_model(model, device, allow_code=allow_code), warns=False)
    try_event_tables(loaded, tables, adjust)
    source = adjust(loaded.source_of(data))
    files = input_files(source)
    try_files(source, files)
    found = stored_names(source, files)
    columns = choose_columns(ids, keep, loaded.manifest["reading"].get("id", ()), found)
    require_free_names(columns, output_names(loaded.goal, loaded.decision))
    # Identifiers of CSV files stay text.
    texts = {name: ColumnSettings(kind="text") for name in columns.ids if name not in loaded.inputs}
    source = source.model_copy(update={"declared": texts | source.declared})
    names = tuple(name for name in dict.fromkeys([*loaded.inputs, *columns.names, *_ruled(loaded)]) if name in found)
    writer, n_rows, report = _TableWriter(output, safe_csv), 0, None
    with ExitStack() as stack:
        stack.enter_context(writer)
        for chunk in _chunks(loaded, source, files, names, note):
            with errors_in(data), rows_counted_after(n_rows):
                table = _explained(loaded, chunk, columns, tables, as_of, interactions)
            writer.write(table)
            own = loaded.last_prediction_report
            report = own if report is None or own is None else report.merge(own)
            n_rows += table.num_rows
            for text in loaded.backend.take_notes():
                note(text)
    return ScoreSummary(
        output=output, n_rows=n_rows, seconds=time.perf_counter() - started, ids=columns.ids, kept=columns.kept,
        notes=tuple(notes), report=report,
    )  # fmt: skip


def _ruled(model: LoadedModel) -> list[str]:
    return [each.column for each in model.rules]


def _chunks(
    model: LoadedModel, source: TableSource, files: Sequence[Any], names: Sequence[str], note: Callable[[str], None]
) -> Iterator[pa.Table]:
    """Yield the rows to explain at once: all rows if features are computed from other rows."""
    if model.features.derivation is not None or not source.paths:
        loaded = read_arrow(source, names, files=files)
        yield from [loaded.table] if model.features.derivation is not None else slices(loaded.table, SLICE_ROWS)
        return
    stream = ChunkStream(source, files, names)
    for chunk in stream:
        yield from slices(chunk, SLICE_ROWS)
    for line in stream.notes.lines():
        note(line)


def _explained(
    model: LoadedModel, rows: pa.Table, columns: IdColumns, tables: Any, as_of: Any, interactions: bool
) -> pa.Table:
    """Return the copied columns, predictions and contributions of some rows."""
    copied = rows.select(list(columns.names))
    copied = pa.table({name: _plain(column) for name, column in zip(copied.column_names, copied.columns, strict=True)})
    prediction = model.predict_table(rows, tables, as_of)
    found = contribution_table(model.explain(rows, tables, as_of, interactions=interactions))
    names = [*copied.column_names, *prediction.column_names, *found.column_names]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"two output columns would have the name {twice!r}", fix="rename the input column")
    return pa.table([*copied.columns, *prediction.columns, *found.columns], names=names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


class _TableWriter:
    """Writer of a CSV or Parquet file in parts; the file replaces an existing one once it is complete.

    Parameters
    ----------
    output : Path
    safe_csv : bool
        See `gpupipe.pipeline.scoring.outputs.escape_formulas`.
    """

    def __init__(self, output: Path, safe_csv: bool) -> None:
        self._output, self._is_csv, self._safe_csv = output, output.suffix == ".csv", safe_csv
        self._stack = ExitStack()
        self._file: IO[bytes]
        self._writer: Any = None

    def __enter__(self) -> _TableWriter:
        draft = self._stack.enter_context(replace_file(self._output))
        self._file = self._stack.enter_context(draft.open("wb"))  # Arrow itself opens UTF-8 paths only
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def write(self, table: pa.Table) -> None:
        """Append rows; the first ones decide the columns and their types."""
        import pyarrow.csv as pa_csv
        import pyarrow.parquet as pq

        if self._is_csv and self._safe_csv:
            table = escape_formulas(table)
        if self._writer is None:
            kind = pa_csv.CSVWriter if self._is_csv else pq.ParquetWriter
            self._writer = self._stack.enter_context(kind(self._file, table.schema))
        self._writer.write_table(table.cast(self._writer.schema) if not self._is_csv else table)
