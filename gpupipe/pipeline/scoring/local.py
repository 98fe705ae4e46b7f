"""Batch scoring on one machine, into a CSV or Parquet file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.io.files import mask
from gpupipe.io.input_files import input_files
from gpupipe.io.isolation import try_files
from gpupipe.io.output_conflicts import require_no_conflict
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.pipeline.id_columns import ROW, choose_columns, output_names, read_columns, require_free_names
from gpupipe.pipeline.model.interface import LoadedModel
from gpupipe.pipeline.model.model import load_model
from gpupipe.pipeline.scoring.bad_rows import OnError, ScreenedRows, errors_in, require_own_file, screen
from gpupipe.pipeline.scoring.outputs import rejected_path, require_output_file, scoring_inputs, write_table
from gpupipe.pipeline.scoring.summary import ScoreSummary, reason_line


def score(
    model: str | Path,
    data: str | None,
    output: Path,
    device: str = "auto",
    tables: Mapping[str, str] | None = None,
    as_of: str | None = None,
    allow_code: bool = False,
    say: Callable[[str], None] = lambda text: None,
    *,
    ids: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    adjust: Callable[[TableSource], TableSource] = lambda source: source,
    on_error: OnError = "error",
    safe_csv: bool = False,
    untrusted: bool = False,
    limits: Mapping[str, Any] | None = None,
) -> ScoreSummary:
    """Write the predictions of `data` to `output`.

    Parameters
    ----------
    model : str or Path
        A run directory or a model directory.
    data : str, optional
        File, glob, folder or URL. None: the rows are made of the event tables, see `Model.predict_entities`.
    output : Path
        ``.csv`` or ``.parquet``; complete or not there at all.
    device : {"auto", "cpu", "gpu"}
    tables : mapping of str to str, optional
        The further tables that features are made of: name to file, glob, folder or URL.
    as_of : str, optional
        An ISO date or time in place of the cut-off dates of the training.
    allow_code : bool
        Whether users' kernels that the model holds may run.
    say : callable
        Called with each warning or remark on the work.
    ids : sequence of str, optional
        Columns of `data` to copy into the output first; None: the identifiers that the model knows of.
    keep : sequence of str
        Further columns to copy: names and globs.
    adjust : callable
        Returns the source of `data` with other reader settings. One that isolates isolates `tables` too.
    on_error : {"error", "reject", "null"}
        What to do with rows that cannot be scored as they are; see `gpupipe.pipeline.scoring.bad_rows.screen`. Unless
        it is ``"error"`` the output has a column ``row``, the place in the input from 0, and rejected rows are written
        beside it: ``scores.rejected.csv`` for ``scores.csv``. Rejected rows are no part of the history of others.
    safe_csv : bool
        Write CSV that a spreadsheet can open without running what is in it: see
        `gpupipe.pipeline.scoring.outputs.escape_formulas`.
    untrusted : bool
        Whether the model is used in a child process; the scores are the same. See `gpupipe.load_model`.
    limits : mapping, optional
        Limits of that process.

    Raises
    ------
    ConfigError
        If `output` has another suffix, cannot be written, or would overwrite or add to what is read here (the input,
        further tables, the model or its run directory); or a column to copy is absent or has a taken name.
    SchemaError
        If a column is absent or bad rows are errors; also if every row was rejected, which are written then.
    GpupipeError
        As `load_model` and `Model.predict`.
    """
    started, notes = time.perf_counter(), list[str]()

    def note(text: str) -> None:
        notes.append(text)
        say(text)

    require_output_file(output)
    for path in (output, *([rejected_path(output)] if on_error != "error" else [])):
        require_no_conflict(path, scoring_inputs(model, data, tables))
    loaded_model = load_model(model, device, allow_code=allow_code, untrusted=untrusted, limits=limits)
    try_event_tables(loaded_model, tables, adjust)
    if data is None:
        if on_error != "error" or keep or ids:
            options = "INPUT is not given: identifiers, kept columns and --on-error are of its rows"
            raise ConfigError(options, fix="leave them out: scores of event tables begin with the keys")
        return _score_entities(loaded_model, output, tables or {}, as_of, note, started, safe_csv)
    source = adjust(loaded_model.source_of(data))
    if on_error != "error":
        require_own_file(rejected_path(output))
        source = source.model_copy(update={"csv": source.csv.model_copy(update={"bad_rows": "skip"})})
    loaded, label = read_arrow(source, may_be_empty=True), mask(source.label)
    if loaded.n_skipped and on_error == "error":
        note(
            f"skipped {loaded.n_skipped:,} {'row' if loaded.n_skipped == 1 else 'rows'} with another number of fields "
            "(csv.bad_rows=skip); --on-error reject writes such rows to a file and numbers the others"
        )
    columns = choose_columns(ids, keep, loaded_model.manifest["reading"].get("id", ()), loaded.names)
    require_free_names(columns, output_names(loaded_model.goal, numbered=on_error != "error"))
    screened = screen(loaded_model, loaded, source, on_error)
    for text in screened.notes:
        note(text)
    rejected = _write_rejected(screened, output, on_error, label, safe_csv)
    copied = read_columns(columns, source, loaded.files, loaded.table.num_rows, output.suffix)
    # The rules were checked above; the report is printed instead of its warnings.
    scorer = replace(loaded_model, rules=(), warns=False)
    with errors_in(label):
        predicted = scorer.predict_table(screened.table, tables, as_of)
    for text in scorer.backend.take_remarks():
        note(text)
    if screened.passed is not None:
        copied = copied.filter(pa.array(screened.passed)) if copied.num_columns else copied
    table: dict[str, Any] = {} if screened.numbers is None else {ROW: pa.array(screened.numbers)}
    require_free_names(columns, predicted.column_names)  # those of embeddings are known now
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


def try_event_tables(
    model: LoadedModel, tables: Mapping[str, str] | None, adjust: Callable[[TableSource], TableSource]
) -> None:
    """Try the files of further tables in a child process, if the rows to score are isolated.

    Parameters
    ----------
    model : LoadedModel
    tables : mapping of str to str, optional
        Their names to file, glob, folder or URL. Names that the model does not know are reported when it scores.
    adjust : callable
        Returns the source of the rows to score with the reader settings that the user gave.

    Raises
    ------
    DataError, LimitError
        As `gpupipe.io.isolation.try_files`.
    """
    if not adjust(model.source_of("INPUT")).isolate:
        return
    for name, path in (tables or {}).items():
        if name in model.events.tables:
            source = model.event_source(name, path).model_copy(update={"isolate": True})
            try_files(source, input_files(source))


def _score_entities(
    model: LoadedModel,
    output: Path,
    tables: Mapping[str, str],
    as_of: str | None,
    note: Callable[[str], None],
    started: float,
    safe_csv: bool,
) -> ScoreSummary:
    """Write the predictions of every key with an event before `as_of`."""
    if as_of is None:
        fix = "name the INPUT to score; or give --as-of DATE, for a model whose rows are made of events"
        raise ConfigError("no INPUT is named", fix=fix)
    served = replace(model, warns=False)  # the report is printed instead
    table = served.predict_entities(tables, as_of)
    for text in model.backend.take_remarks():
        note(text)
    write_table(table, output, safe_csv)
    return ScoreSummary(
        output=output,
        n_rows=table.num_rows,
        seconds=time.perf_counter() - started,
        report=served.last_prediction_report,
    )


def _write_rejected(screened: ScreenedRows, output: Path, on_error: OnError, label: str, safe_csv: bool) -> Path | None:
    """Write the rejected rows beside the output, or remove those of an earlier scoring; return their file, if any.

    Raises
    ------
    SchemaError
        If no row is left.
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
            f"no row is left to score, {screened.n_rejected:,} rejected:\n{reasons}",
            where=f"{label}; the rows are in {path}",
            fix="check that it is the right file for this model, and how it is written (--source)",
        )
    return path
