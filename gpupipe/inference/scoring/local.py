"""Batch scoring on one machine, into a CSV or Parquet file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.inference.explanation.outputs import reason_names, require_explainable
from gpupipe.inference.interface import LoadedModel
from gpupipe.inference.model import load_model
from gpupipe.inference.prediction.id_columns import ROW, choose_columns, output_names, read_columns, require_free_names
from gpupipe.inference.prediction.rows import require_known
from gpupipe.inference.scoring.bad_rows import OnError, ScreenedRows, errors_in, require_own_file, screen
from gpupipe.inference.scoring.outputs import rejected_path, require_output_file, scoring_inputs, write_table
from gpupipe.inference.scoring.summary import ScoreSummary, reason_line
from gpupipe.io.files import mask
from gpupipe.io.input_files import input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow


def score(
    model: str | Path,
    data: str | None,
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
    on_error: OnError = "error",
    safe_csv: bool = False,
    untrusted: bool = False,
    limits: Mapping[str, Any] | None = None,
    explain: int = 0,
) -> ScoreSummary:
    """Write the predictions of `data` to `output`, and return a summary.

    Parameters
    ----------
    model : str or Path
        A run directory or a model directory.
    data : str, optional
        File, glob, folder or URL. None: the rows are built from the event tables, see `Model.predict_entities`.
    output : Path
        ``.csv`` or ``.parquet``; written atomically.
    device : {"auto", "cpu", "gpu"}
    tables : mapping of str to str, optional
        The further tables that features are computed from: name to file, glob, folder or URL.
    as_of : str, optional
        Score as of this ISO date or time instead of the cut-off dates of the training.
    allow_code : bool
        Whether custom kernels in the model may run.
    log : callable
        Called with each warning or note.
    ids : sequence of str, optional
        Columns of `data` to copy to the output, as its first columns; None: the identifier columns of the training.
    keep : sequence of str
        Further columns to copy: names and globs.
    adjust : callable
        Takes the source of `data` and returns it with other reader settings. ``isolate`` and
        ``outside_files`` apply to `tables` as well.
    on_error : {"error", "reject", "null"}
        Handling of rows that cannot be scored; see `gpupipe.inference.scoring.bad_rows.screen`. Unless ``"error"``, the
        output has a column ``row`` with the row number in the input, from 0, and rejected rows are written next to it:
        ``scores.rejected.csv`` for ``scores.csv``. Rejected rows are excluded from the history of other rows.
    safe_csv : bool
        Escape texts that a spreadsheet would evaluate as formulas; see
        `gpupipe.inference.scoring.outputs.escape_formulas`.
    untrusted : bool
        Run the model in a child process; the scores are the same. See `gpupipe.load_model`.
    limits : mapping, optional
        Limits of the child process.
    explain : int
        Number of the strongest contributions to write for each prediction; see `Model.predict_table`.

    Raises
    ------
    ConfigError
        If `output` has another suffix, cannot be written, or would overwrite an input (data, further tables, the model
        or its run directory); or a column to copy is missing or has the name of an output column.
    SchemaError
        If a column is missing; if a row is bad and `on_error` is ``"error"``; or if every row is rejected, in which
        case the rejected rows are written.
    GpupipeError
        As `load_model` and `Model.predict`.
    """
    started, notes = time.perf_counter(), list[str]()

    def note(text: str) -> None:
        notes.append(text)
        log(text)

    for path in (output, *([rejected_path(output)] if on_error != "error" else [])):
        require_no_conflict(path, scoring_inputs(model, data, tables))
    require_output_file(output)
    if on_error != "error":
        require_own_file(rejected_path(output))
        require_output_file(rejected_path(output))
    loaded_model = load_model(model, device, allow_code=allow_code, untrusted=untrusted, limits=limits)
    if explain:
        require_explainable(loaded_model.goal)
    require_known(loaded_model, tables)
    tables = adjust_tables(loaded_model, tables, adjust)
    if data is None:
        if on_error != "error" or keep or ids or explain:
            what = "--id, --keep, --explain and --on-error need an INPUT"
            raise ConfigError(what, fix="remove them: without INPUT, the output starts with the entity keys")
        return _score_entities(loaded_model, output, tables or {}, as_of, note, started, safe_csv)
    source = adjust(loaded_model.source_of(data))
    if on_error != "error":
        source = source.model_copy(update={"csv": source.csv.model_copy(update={"bad_rows": "skip"})})
    loaded, label = read_arrow(source, may_be_empty=True), mask(source.label)
    if loaded.n_skipped and on_error == "error":
        note(
            f"skipped {loaded.n_skipped:,} {'row' if loaded.n_skipped == 1 else 'rows'} whose number of fields differs "
            "from the header (csv.bad_rows=skip); --on-error reject writes them to a file and numbers the others"
        )
    columns = choose_columns(ids, keep, loaded_model.manifest["reading"].get("id", ()), loaded.names)
    outputs = output_names(loaded_model.goal, loaded_model.decision, numbered=on_error != "error")
    require_free_names(columns, [*outputs, *reason_names(loaded_model.goal, explain)])
    screened = screen(loaded_model, loaded, source, on_error)
    for text in screened.notes:
        note(text)
    rejected = _write_rejected(screened, output, on_error, label, safe_csv)
    copied = read_columns(columns, source, loaded.files, loaded.table.num_rows, output.suffix)
    # The rules were checked above, and the report is printed instead of its warnings.
    scorer = replace(loaded_model, rules=(), warns=False)
    with errors_in(label):
        predicted = scorer.predict_table(screened.table, tables, as_of, explain=explain)
    for text in scorer.backend.take_notes():
        note(text)
    if screened.passed is not None:
        copied = copied.filter(pa.array(screened.passed)) if copied.num_columns else copied
    table: dict[str, Any] = {} if screened.numbers is None else {ROW: pa.array(screened.numbers)}
    require_free_names(columns, predicted.column_names)  # again, because the number of embeddings is known only now
    for part in (copied, predicted):
        table |= dict(zip(part.column_names, part.columns, strict=True))
    write_table(pa.table(table), output, safe_csv)
    return ScoreSummary(
        output=output,
        n_rows=predicted.num_rows,
        seconds=time.perf_counter() - started,
        ids=columns.ids,
        kept=columns.kept,
        n_rejected=screened.n_rejected,
        rejected_path=rejected,
        reasons=screened.reasons,
        nulled=screened.nulled,
        notes=tuple(notes),
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
    tables: Mapping[str, str],
    as_of: str | None,
    note: Callable[[str], None],
    started: float,
    safe_csv: bool,
) -> ScoreSummary:
    """Write one prediction for each key that has an event before `as_of`."""
    if as_of is None:
        fix = "name an INPUT; or add --as-of DATE if the rows of the model are built from events"
        raise ConfigError("expected an INPUT or --as-of", fix=fix)
    served = replace(model, warns=False)  # the report is printed instead
    table = served.predict_entities(tables, as_of)
    for text in model.backend.take_notes():
        note(text)
    write_table(table, output, safe_csv)
    return ScoreSummary(
        output=output,
        n_rows=table.num_rows,
        seconds=time.perf_counter() - started,
        report=served.last_prediction_report,
    )


def _write_rejected(screened: ScreenedRows, output: Path, on_error: OnError, label: str, safe_csv: bool) -> Path | None:
    """Write the rejected rows next to the output, or remove those of an earlier scoring; return their path, if any.

    Raises
    ------
    SchemaError
        If every row was rejected.
    """
    path = rejected_path(output)
    if screened.rejected is None:
        if on_error != "error":
            path.unlink(missing_ok=True)
        return None
    write_table(screened.rejected, path, safe_csv)
    if not screened.table.num_rows:
        reasons = "\n".join(reason_line(reason, n) for reason, n in screened.reasons.items())
        raise SchemaError(
            f"all {screened.n_rejected:,} rows were rejected:\n{reasons}",
            where=f"{label}; the rejected rows are in {path}",
            fix="check that this is the right file for the model, and its reader settings (--source)",
        )
    return path
