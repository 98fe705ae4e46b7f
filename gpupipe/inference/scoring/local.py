"""Batch scoring on one machine, into a CSV or Parquet file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.inference.explanation.outputs import reason_names, require_explainable
from gpupipe.inference.interface import LoadedModel
from gpupipe.inference.prediction.id_columns import ROW, choose_columns, output_names, read_columns, require_free_names
from gpupipe.inference.prediction.rows import require_known
from gpupipe.inference.scoring.bad_rows import ScreenedRows, errors_in, require_own_file, screen
from gpupipe.inference.scoring.outputs import rejected_path, require_output_file, scoring_inputs, write_table
from gpupipe.inference.scoring.scoring_settings import DEFAULT_SETTINGS, ScoringSettings
from gpupipe.inference.scoring.summary import ScoreSummary, reason_line
from gpupipe.io.files import mask
from gpupipe.io.input_files import input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow


def score(
    model: str | Path, data: str | None, output: Path, settings: ScoringSettings = DEFAULT_SETTINGS
) -> ScoreSummary:
    """Write the predictions of `data` to `output`, and return a summary.

    Raise ConfigError if `output` has another suffix, cannot be written, or would overwrite an input (data, further
    tables, the model or its run directory); or a column to copy is missing or has the name of an output column;
    SchemaError if a column is missing; if a row is bad and ``on_error`` is ``"error"``; or if every row is rejected, in
    which case the rejected rows are written; GpupipeError as `load_model` and `Model.predict`.

    - `model`: a run directory or a model directory
    - `data`: file, glob, folder or URL. None: the rows are built from the event tables, see `Model.predict_entities`.
    - `output`: ``.csv`` or ``.parquet``; written atomically
    """
    started = time.perf_counter()
    require_outputs(model, data, output, settings)
    summary = score_loaded(settings.load(model), data, output, settings)
    return replace(summary, seconds=time.perf_counter() - started)


def score_loaded(loaded: LoadedModel, data: str | None, output: Path, settings: ScoringSettings) -> ScoreSummary:
    """Write the predictions of a loaded model as `score`, after `require_outputs`."""
    notes = list[str]()

    def note(text: str) -> None:
        notes.append(text)
        settings.log(text)

    if settings.explain:
        require_explainable(loaded.goal)
    require_known(loaded, settings.tables)
    tables = adjust_tables(loaded, settings.tables, settings.adjust)
    if data is None:
        summary = _score_entities(loaded, output, tables or {}, settings, note)
    else:
        summary = _score_rows(loaded, data, output, tables, settings, note)
    return replace(summary, notes=tuple(notes))


def require_outputs(model: str | Path, data: str | None, output: Path, settings: ScoringSettings) -> None:
    """Raise ConfigError unless the scores and the rejected rows can be written, without overwriting an input."""
    rejected = [settings.errors_to or rejected_path(output)] if settings.on_error != "error" else []
    for path in (output, *rejected):
        require_no_conflict(path, scoring_inputs(model, data, settings.tables))
    require_output_file(output)
    for path in rejected:
        require_own_file(path)
        require_output_file(path)


def _score_rows(
    model: LoadedModel,
    data: str,
    output: Path,
    tables: Mapping[str, Any] | None,
    settings: ScoringSettings,
    note: Callable[[str], None],
) -> ScoreSummary:
    """Write the copied columns and the prediction of each row of `data` that can be scored."""
    on_error = settings.on_error
    source = settings.adjust(model.source_of(data))
    if on_error != "error":
        source = source.model_copy(update={"csv": source.csv.model_copy(update={"bad_rows": "skip"})})
    loaded, label = read_arrow(source, may_be_empty=True), mask(source.label)
    if loaded.n_skipped and on_error == "error":
        note(
            f"skipped {loaded.n_skipped:,} {'row' if loaded.n_skipped == 1 else 'rows'} whose number of fields differs "
            "from the header (csv.bad_rows=skip); --on-error reject writes them to a file and numbers the others"
        )
    columns = choose_columns(settings.ids, settings.keep, model.manifest["reading"].get("id", ()), loaded.names)
    outputs = output_names(model.goal, model.decision, numbered=on_error != "error")
    require_free_names(columns, [*outputs, *reason_names(model.goal, settings.explain)])
    screened = screen(model, loaded, source, on_error)
    for text in screened.notes:
        note(text)
    rejected = _write_rejected(screened, output, settings, label)
    copied = read_columns(columns, source, loaded.files, loaded.table.num_rows, output.suffix)
    # The rules were checked above, and the report is printed instead of its warnings.
    scorer = replace(model, rules=(), warns=False)
    with errors_in(label):
        predicted = scorer.predict_table(screened.table, tables, settings.as_of, explain=settings.explain)
    for text in scorer.backend.take_notes():
        note(text)
    if screened.passed is not None:
        copied = copied.filter(pa.array(screened.passed)) if copied.num_columns else copied
    table: dict[str, Any] = {} if screened.numbers is None else {ROW: pa.array(screened.numbers)}
    require_free_names(columns, predicted.column_names)  # again, because the number of embeddings is known only now
    for part in (copied, predicted):
        table |= dict(zip(part.column_names, part.columns, strict=True))
    write_table(pa.table(table), output, settings.safe_csv)
    return ScoreSummary(
        output=output,
        n_rows=predicted.num_rows,
        ids=columns.ids,
        kept=columns.kept,
        n_rejected=screened.n_rejected,
        rejected_path=rejected,
        reasons=screened.reasons,
        nulled=screened.nulled,
        report=scorer.last_prediction_report,
    )


def adjust_tables(
    model: LoadedModel, tables: Mapping[str, str] | None, adjust: Callable[[TableSource], TableSource]
) -> Mapping[str, Any] | None:
    """Return further tables with ``isolate`` and ``outside_files`` as `adjust` sets them for the rows to score.

    Raise DataError or LimitError as `gpupipe.io.isolation.try_files` for the files of an isolated table.
    """
    source = adjust(model.source_of("INPUT"))
    flags = {name: True for name in ("isolate", "outside_files") if getattr(source, name)}
    if not tables or not flags:
        return tables
    known = [name for name in tables if name in model.events.tables]
    found = {name: model.event_source(name, tables[name]).model_copy(update=flags) for name in known}
    for each in found.values() if source.isolate else ():
        try_files(each, input_files(each))
    return {**tables, **found}


def _score_entities(
    model: LoadedModel,
    output: Path,
    tables: Mapping[str, Any],
    settings: ScoringSettings,
    note: Callable[[str], None],
) -> ScoreSummary:
    """Write one prediction for each key that has an event before the cut-off."""
    if settings.on_error != "error" or settings.keep or settings.ids or settings.explain:
        what = "--id, --keep, --explain and --on-error need an INPUT"
        raise ConfigError(what, fix="remove them: without INPUT, the output starts with the entity keys")
    if settings.as_of is None:
        fix = "name an INPUT; or add --as-of DATE if the rows of the model are built from events"
        raise ConfigError("expected an INPUT or --as-of", fix=fix)
    served = replace(model, warns=False)  # the report is printed instead
    table = served.predict_entities(tables, settings.as_of)
    for text in model.backend.take_notes():
        note(text)
    write_table(table, output, settings.safe_csv)
    return ScoreSummary(output=output, n_rows=table.num_rows, report=served.last_prediction_report)


def _write_rejected(screened: ScreenedRows, output: Path, settings: ScoringSettings, label: str) -> Path | None:
    """Write the rejected rows next to the output, or remove those of an earlier scoring; return their path, if any.

    Raise SchemaError if every row was rejected.
    """
    path = settings.errors_to or rejected_path(output)
    if screened.rejected is None:
        if settings.on_error != "error":
            path.unlink(missing_ok=True)
        return None
    write_table(screened.rejected, path, settings.safe_csv)
    if not screened.table.num_rows:
        reasons = "\n".join(reason_line(reason, n) for reason, n in screened.reasons.items())
        raise SchemaError(
            f"all {screened.n_rejected:,} rows were rejected:\n{reasons}",
            where=f"{label}; the rejected rows are in {path}",
            fix="check that this is the right file for the model, and its reader settings (--source)",
        )
    return path
