"""Batch scoring into a table of a database or a lakehouse, merged by key."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.inference.explanation.outputs import reason_names, require_explainable
from gpupipe.inference.interface import LoadedModel
from gpupipe.inference.prediction.id_columns import (
    ROW,
    IdColumns,
    choose_columns,
    output_names,
    read_columns,
    require_column,
    require_free_names,
)
from gpupipe.inference.prediction.rows import require_known
from gpupipe.inference.scoring.bad_rows import errors_in, screen
from gpupipe.inference.scoring.input_chunks import enforce_rules, input_chunks
from gpupipe.inference.scoring.local import adjust_tables, require_outputs, score_loaded
from gpupipe.inference.scoring.outputs import TableWriter, scoring_inputs
from gpupipe.inference.scoring.scoring_settings import ScoringSettings
from gpupipe.inference.scoring.summary import ScoreSummary
from gpupipe.io.chunks.chunk_stream import slices
from gpupipe.io.external.table_target import BATCH_ROWS, TableTarget
from gpupipe.io.files import mask
from gpupipe.io.input_files import input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.io.raw_columns import require_rows, stored_names
from gpupipe.io.source_reader import LoadedTable
from gpupipe.io.table_copy import CopyFolder
from gpupipe.names import count_noun, show_value
from gpupipe.table.encode_chunks import rows_counted_after
from gpupipe.table.row_numbers import RowNumbers
from gpupipe.units import parse_time_us

MODEL_VERSION, RUN_TIME = "model_version", "run_time"
VERSION_DIGITS = 12
SLICE_ROWS = 262_144  # that are scored at once
KEYS_SHOWN = 5

Write = Callable[[pa.Table, Sequence[str]], None]  # takes rows, and the names of those columns that are copied


def predict_into_table(
    model: str | Path,
    data: str | Path | None,
    to: str,
    key: str | Sequence[str],
    *,
    model_version: bool = False,
    run_time: bool = False,
    **settings: Any,
) -> ScoreSummary:
    """Score rows and merge the predictions into a table by key.

    The table gets the copied columns, the prediction, and the probability of each class. Its rows with the same key are
    replaced, others stay, and a repeated call changes nothing. It is made if it does not exist. The merge is one
    transaction, or one commit of a Delta table.

    Files are scored in chunks. In memory as a whole are the copied columns; and all columns, if features are computed
    from the history of other rows, or if ``on_error`` is not ``"error"``.

    Parameters
    ----------
    model : str or Path
        A run directory or a model directory.
    data : str, Path or None
        File, glob, folder or URL. None: one row for each key with an event before ``as_of``.
    to : str
        ``postgresql://USER@HOST/NAME#SCHEMA.TABLE``, ``sqlite:///FILE#TABLE``, ``duckdb:///FILE#TABLE`` or
        ``delta://PATH``. The schema may be omitted.
    key : str or sequence of str
        The columns that identify a row of the table: of `data`, ``"model_version"`` or ``"run_time"``.
    model_version : bool, default=False
        Add the column ``model_version``: the first 12 digits of the SHA-256 of the model's manifest.
    run_time : bool, default=False
        Add the column ``run_time``, in UTC: ``as_of`` if it is given, else the start of this call.
    **settings
        Fields of `gpupipe.inference.scoring.scoring_settings.ScoringSettings`, such as ``ids``, ``keep``, ``tables``,
        ``as_of`` and ``on_error``, which needs ``errors_to``, the file of rejected rows.

    Returns
    -------
    ScoreSummary
        ``merged`` has the numbers of rows ``inserted``, ``updated`` and ``unchanged``.

    Raises
    ------
    ConfigError
        If `to` or `key` is invalid, a library is not installed, or the table is or contains an input.
    SchemaError
        If a key is null or not unique, or the table has other columns or types; and as `gpupipe.Model.predict`. Nothing
        is written.
    DataError
        If the database cannot be reached, refuses the rows or has a key in several rows. Nothing is written.

    Examples
    --------
    >>> import tempfile
    >>> import gpupipe as gp
    >>> import pandas as pd
    >>> folder = tempfile.mkdtemp()
    >>> frame = pd.DataFrame({"id": range(100), "age": range(100), "left": [0] * 50 + [1] * 50})
    >>> frame.to_parquet(f"{folder}/people.parquet")
    >>> pipe = gp.Pipeline(frame.drop(columns="id"), target="left", models=["gaussian_nb"])
    >>> run = pipe.run(f"{folder}/run", quiet=True)
    >>> to = f"duckdb:///{folder}/shop.duckdb#scores"
    >>> gp.predict_into_table(run.path, f"{folder}/people.parquet", to, key="id").merged
    MergeCounts(inserted=100, updated=0, unchanged=0)
    """
    started, begin = time.perf_counter(), datetime.now(UTC)
    notes: dict[str, None] = {}
    given = ScoringSettings(**settings)

    def note(text: str) -> None:
        if text not in notes:  # once, not for every chunk
            notes[text] = None
            given.log(text)

    chosen, data = replace(given, log=note), None if data is None else str(data)
    keys, target = tuple(dict.fromkeys([key] if isinstance(key, str) else key)), TableTarget.parse(to)
    added = {name for name, is_added in ((MODEL_VERSION, model_version), (RUN_TIME, run_time)) if is_added}
    _require_options(target, keys, added, chosen)
    if target.path is not None:
        contents = ["rows.parquet"] if target.kind == "delta" else None
        require_no_conflict(target.path, scoring_inputs(model, data, chosen.tables), contents=contents)
    folder = CopyFolder()
    try:
        staged, unmerged = folder.path / "scores.parquet", folder.path / "unmerged.parquet"
        if data is None or chosen.on_error != "error":
            require_outputs(model, data, unmerged, chosen)
        existing = target.schema()
        loaded = chosen.load(model)
        micros = None if chosen.as_of is None else parse_time_us(chosen.as_of)
        values = {
            MODEL_VERSION: pa.scalar(str(loaded.manifest["manifest_sha256"])[:VERSION_DIGITS]),
            RUN_TIME: pa.scalar(begin if micros is None else micros, pa.timestamp("us", "UTC")),
        }
        schema: pa.Schema | None = None
        with TableWriter(staged, safe_csv=False) as writer:

            def write(rows: pa.Table, copied: Sequence[str]) -> None:
                nonlocal schema
                for name in filter(added.__contains__, values):
                    rows = rows.append_column(name, pa.repeat(values[name], rows.num_rows))
                schema = target.agree(rows.schema, existing, copied) if schema is None else schema
                writer.write(target.convert(rows, schema))

            if data is None or chosen.on_error != "error":
                summary = _score_at_once(loaded, data, unmerged, write, keys, chosen)
            else:
                summary = _score_chunks(loaded, data, write, keys, chosen)
        merged = target.merge(staged, keys)
    finally:
        folder.remove()
    seconds = time.perf_counter() - started
    return replace(summary, output=target.label, seconds=seconds, notes=tuple(notes), merged=merged)


def _require_options(target: TableTarget, keys: Sequence[str], added: set[str], settings: ScoringSettings) -> None:
    """Raise ConfigError if options of the scoring do not fit together."""
    if not {*keys} - {MODEL_VERSION, RUN_TIME}:
        what = "--to needs --key: the columns of the input that identify a row of the table"
        raise ConfigError(what, where=target.label, fix="name them, as in --key customer_id")
    for name, option in ((MODEL_VERSION, "--model-version"), (RUN_TIME, "--run-time")):
        if name in keys and name not in added:
            raise ConfigError(f"--key {name} needs this column", where=target.label, fix=f"add {option}")
    if settings.on_error != "error" and settings.errors_to is None:
        what = f"--on-error {settings.on_error} with --to needs a file for the rejected rows"
        raise ConfigError(what, where=target.label, fix="add --errors-to FILE.csv")


def _score_chunks(
    model: LoadedModel, data: str, write: Write, keys: Sequence[str], settings: ScoringSettings
) -> ScoreSummary:
    """Score the rows of `data` in chunks; the keys are checked before."""
    if settings.explain:
        require_explainable(model.goal)
    require_known(model, settings.tables)
    tables = adjust_tables(model, settings.tables, settings.adjust)
    source = settings.adjust(model.source_of(data))
    label, files = mask(source.label), list(input_files(source))
    try_files(source, files)
    found = stored_names(source, files)
    columns = choose_columns(_ids(model, keys, found, settings), settings.keep, (), found)
    outputs = [*output_names(model.goal, model.decision), *reason_names(model.goal, settings.explain)]
    require_free_names(columns, [*outputs, MODEL_VERSION, RUN_TIME])
    copied = read_columns(columns, source, files, None, ".parquet")
    require_unique(copied.select([name for name in keys if name in copied.column_names]), label)
    enforce_rules(model, source, files, found, label, settings.log)
    served = replace(model, rules=(), warns=False)  # the report is printed instead
    names = [name for name in model.inputs if name in found]
    n_rows, report = 0, None
    for chunk in input_chunks(model, source, files, names, settings.log):
        is_whole = model.features.derivation is not None or not chunk.num_rows
        for part in [chunk] if is_whole else slices(chunk, SLICE_ROWS):
            with errors_in(label), rows_counted_after(n_rows):
                rows = screen(served, LoadedTable(part, files, names=tuple(found)), source, "error").table
                predicted = served.predict_table(rows, tables, settings.as_of, explain=settings.explain)
            require_free_names(columns, predicted.column_names)
            own = copied.slice(n_rows, predicted.num_rows)
            require_rows(own, predicted.num_rows, source)
            named = [*own.column_names, *predicted.column_names]
            write(pa.table([*own.columns, *predicted.columns], names=named), columns.names)
            shown, n_rows = served.last_prediction_report, n_rows + predicted.num_rows
            report = shown if report is None or shown is None else report.merge(shown)
            for text in served.backend.take_notes():
                settings.log(text)
    require_rows(copied, n_rows, source)
    return ScoreSummary(output="", n_rows=n_rows, ids=columns.ids, kept=columns.kept, report=report)


def _score_at_once(
    model: LoadedModel, data: str | None, output: Path, write: Write, keys: Sequence[str], settings: ScoringSettings
) -> ScoreSummary:
    """Score rows that must be in memory at once, by way of the Parquet file `output`."""
    if data is not None:
        source = settings.adjust(model.source_of(data))
        found = stored_names(source, input_files(source))
        settings = replace(settings, ids=_ids(model, keys, found, settings))
    summary = score_loaded(model, data, output, settings)
    with pq.ParquetFile(output) as file:
        names = [name for name in file.schema_arrow.names if name != ROW]
        own = [require_column(name, "--key", names) for name in keys if name not in (MODEL_VERSION, RUN_TIME)]
        copied = (*summary.ids, *summary.kept) or own
        require_free_names(IdColumns(tuple(copied)), [MODEL_VERSION, RUN_TIME])
        require_unique(file.read(columns=own), "the scored rows")
        write(file.schema_arrow.empty_table().select(names), copied)
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            write(pa.table(batch), copied)
    return summary


def _ids(model: LoadedModel, keys: Sequence[str], found: Sequence[str], settings: ScoringSettings) -> list[str]:
    """Return the identifiers to copy: the key first, then those of the settings or of the model."""
    known = [name for name in model.manifest["reading"].get("id", ()) if name in found]
    own = [require_column(name, "--key", found) for name in keys if name not in (MODEL_VERSION, RUN_TIME)]
    return list(dict.fromkeys([*own, *(known if settings.ids is None else settings.ids)]))


def require_unique(keys: pa.Table, label: str) -> None:
    """Raise SchemaError if a value of the key columns is missing, or several rows have the same key."""
    fix = "remove the rows, or name all columns of the key with --key"
    for name, column in zip(keys.column_names, keys.columns, strict=True):
        is_null = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
        if pc.any(is_null).as_py():
            rows = RowNumbers.of(is_null.to_numpy())
            raise SchemaError(f"key column {name!r} has no value in {rows}; nothing was written", where=label, fix=fix)
    groups = keys.group_by(keys.column_names, use_threads=False)  # in the order of the rows
    if groups.aggregate([]).num_rows == keys.num_rows:
        return
    counts = groups.aggregate([([], "count_all")])
    several = counts.filter(pc.greater(counts.column("count_all"), 1))
    what = f"{count_noun(several.num_rows, 'key', 'is', 'are')} not unique; nothing was written"
    for row in several.slice(0, KEYS_SHOWN).to_pylist():
        what += (
            f"\n{', '.join(f'{name}={show_value(row[name])}' for name in keys.column_names)}: {row['count_all']:,} rows"
        )
    raise SchemaError(what, where=label, fix=fix)
