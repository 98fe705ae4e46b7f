"""Explanation of files, into a CSV or Parquet file."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpupipe.errors import ConfigError
from gpupipe.inference.explanation.outputs import margin_names, require_explainable
from gpupipe.inference.explanation.tables import contribution_table
from gpupipe.inference.interface import LoadedModel
from gpupipe.inference.prediction.id_columns import IdColumns, choose_columns, output_names, require_free_names
from gpupipe.inference.prediction.rows import entities_to_predict
from gpupipe.inference.scoring.bad_rows import errors_in
from gpupipe.inference.scoring.input_chunks import enforce_rules, input_chunks
from gpupipe.inference.scoring.local import adjust_tables
from gpupipe.inference.scoring.outputs import TableWriter, require_output_file, scoring_inputs
from gpupipe.inference.scoring.scoring_settings import DEFAULT_SETTINGS, ScoringSettings
from gpupipe.inference.scoring.summary import ScoreSummary
from gpupipe.io.chunks.chunk_stream import slices
from gpupipe.io.column_settings import ColumnSettings
from gpupipe.io.event_settings import AS_OF
from gpupipe.io.files import mask
from gpupipe.io.input_files import input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.io.raw_columns import stored_names
from gpupipe.table.encode_chunks import rows_counted_after
from gpupipe.units import MIB

SLICE_ROWS, SLICE_BYTES = 65_536, 64 * MIB  # of rows that are explained and written at once
TYPED = ("parquet", "orc", "arrow")  # formats whose columns have one type in all rows


def explain_file(
    model: str | Path,
    data: str | None,
    output: Path,
    settings: ScoringSettings = DEFAULT_SETTINGS,
    interactions: bool = False,
) -> ScoreSummary:
    """Write predictions and contributions of the rows of `data` to `output`, and return a summary.

    Files are read, explained and written in chunks, so that they may be larger than memory; rows whose features are
    computed from the history of other rows are in memory at once, and so are columns with rules.

    With `interactions`, the interactions of all pairs of columns are written as well. Of the settings, ``on_error`` and
    ``explain`` do not apply; `data` is as in `gpupipe.inference.scoring.local.score`. Raise ConfigError if `output`
    cannot be written or would overwrite an input; if a column to copy is missing or has the name of an output column;
    or if interactions are requested of a model that does not consist of trees; DataError if the model predicts clusters
    or an embedding; SchemaError if a column is missing, or a row is bad; GpupipeError as `load_model` and
    `gpupipe.Model.explain`.
    """
    started = time.perf_counter()
    notes: dict[str, None] = {}

    def note(text: str) -> None:
        if text not in notes:  # once, not for every chunk
            notes[text] = None
            settings.log(text)

    require_no_conflict(output, scoring_inputs(model, data, settings.tables))
    require_output_file(output)
    loaded = settings.load(model)
    require_explainable(loaded.goal)
    tables = adjust_tables(loaded, settings.tables, settings.adjust)
    loaded = replace(loaded, warns=False)  # the report is printed instead
    if data is None:
        label, columns, chunks = "the rows built from events", *_entities(loaded, tables, settings)
    else:
        source = settings.adjust(loaded.source_of(data))
        label, files = mask(source.label), input_files(source)
        try_files(source, files)
        found = stored_names(source, files)
        columns = choose_columns(settings.ids, settings.keep, loaded.manifest["reading"].get("id", ()), found)
        # Texts of CSV files: the values of a chunk must not decide how a copied column is written.
        texts = {name: ColumnSettings(kind="text") for name in columns.names if name not in loaded.inputs}
        source = source.model_copy(update={"declared": texts | source.declared})
        enforce_rules(loaded, source, files, found, label, note)
        names = [name for name in dict.fromkeys([*loaded.inputs, *columns.names]) if name in found]
        chunks = input_chunks(loaded, source, files, names, note)
        if loaded.features.derivation is None and files[0].format not in TYPED:
            chunks = map(_widened, chunks)
    require_free_names(columns, output_names(loaded.goal, loaded.decision))
    explained = replace(loaded, rules=())
    n_rows = 0
    report = None
    with TableWriter(output, settings.safe_csv) as writer:
        for chunk in _slices(chunks, explained, interactions):
            with errors_in(label), rows_counted_after(n_rows):
                writer.write(_explained(explained, chunk, columns, tables, settings.as_of, interactions))
            own = explained.last_prediction_report
            report = own if report is None or own is None else report.merge(own)
            n_rows += chunk.num_rows
            for text in explained.backend.take_notes():
                note(text)
    return ScoreSummary(
        output=output,
        n_rows=n_rows,
        seconds=time.perf_counter() - started,
        ids=columns.ids,
        kept=columns.kept,
        notes=tuple(notes),
        report=report,
    )


def _entities(
    model: LoadedModel, tables: Mapping[str, Any] | None, settings: ScoringSettings
) -> tuple[IdColumns, Iterator[pa.Table]]:
    """Return the columns to copy and the rows of a model whose rows are built from events: one for each key."""
    if settings.ids or settings.keep:
        fix = "remove them: without INPUT, the output starts with the entity keys"
        raise ConfigError("--id and --keep need an INPUT", fix=fix)
    if settings.as_of is None:
        fix = "name an INPUT; or add --as-of DATE if the rows of the model are built from events"
        raise ConfigError("expected an INPUT or --as-of", fix=fix)
    rows = entities_to_predict(model, tables or {}, settings.as_of).arrow
    return IdColumns(ids=tuple(rows.column_names)), iter([rows])


def _widened(rows: pa.Table) -> pa.Table:
    """Return rows whose integers are floats, as in another chunk of the same file."""
    fields = [field.with_type(pa.float64()) if pa.types.is_integer(field.type) else field for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _slices(chunks: Iterator[pa.Table], model: LoadedModel, interactions: bool) -> Iterator[pa.Table]:
    """Yield the rows that are explained at once, in slices whose contributions need limited memory."""
    n_columns = len(model.inputs) + len(model.events.tables) + 1
    n_values = n_columns ** (1 + interactions) * max(1, len(margin_names(model.goal)))
    most_rows = max(1, min(SLICE_ROWS, SLICE_BYTES // (8 * n_values)))
    for chunk in chunks:
        if model.features.derivation is not None or not chunk.num_rows:
            yield chunk
        else:
            yield from slices(chunk, most_rows)


def _explained(
    model: LoadedModel, rows: pa.Table, columns: IdColumns, tables: Any, as_of: Any, interactions: bool
) -> pa.Table:
    """Return the copied columns, predictions and contributions of some rows."""
    copied = rows.select(list(columns.names))
    copied = pa.table({name: _plain(column) for name, column in zip(copied.column_names, copied.columns, strict=True)})
    rows = rows.drop_columns([AS_OF]) if AS_OF in rows.column_names and AS_OF not in model.inputs else rows
    prediction = model.predict_table(rows, tables, as_of)
    found = contribution_table(model.explain(rows, tables, as_of, interactions=interactions))
    require_free_names(columns, [*prediction.column_names, *found.column_names])
    names = [*copied.column_names, *prediction.column_names, *found.column_names]
    return pa.table([*copied.columns, *prediction.columns, *found.columns], names=names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
