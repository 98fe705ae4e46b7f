"""Batch scoring on workers: each writes the predictions of its chunks as files of one folder.

The model is sent as the bytes of its files and opened on each worker, where every hash is checked again, so estimators
need not be picklable. All workers must reach the folder under the same path.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from gpupipe.artifact.manifest import ATTACHED
from gpupipe.backends.base import Backend
from gpupipe.backends.threads import limit_threads
from gpupipe.errors import ConfigError, LimitError
from gpupipe.io.chunks.compact_tables import widen_codes
from gpupipe.io.input_files import input_files
from gpupipe.io.raw_columns import read_stored, stored_names
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.partitions.source_chunks import ArrowChunk
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.table.encode_chunks import rows_counted_after

_opening = threading.Lock()


class RowReport(Protocol):
    """Report on scored rows, such as `gpupipe.inference.prediction.prediction_report.PredictionReport`."""

    def merge(self, other: Any) -> Any:
        """Return the report on the rows of both."""

    def lines(self) -> list[str]:
        """Return the report as text."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""


class RowScorer(Protocol):
    """Model such as `gpupipe.inference.model.Model`; its `backend` collects warnings."""

    @property
    def backend(self) -> Backend:
        """Backend of the predictions."""

    @property
    def last_prediction_report(self) -> RowReport | None:
        """Report on the rows that this thread scored last."""

    def predict_table(
        self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | None = None, *, explain: int = 0
    ) -> pa.Table:
        """Return one row for each row of `data`, in order."""


Opener = Callable[[Path, Backend], RowScorer]


ChooseColumns = Callable[[Sequence[str]], Sequence[str]]  # selects columns of the input; sent with cloudpickle


class SentModel:
    """Model sent to workers and opened once per process.

    `files` are those of its directory, without those attached to it. `opener` is a picklable function that opens a
    directory with these files and keeps none of them open.
    """

    def __init__(self, files: Mapping[str, bytes], opener: Opener) -> None:
        self.files, self.opener = files, opener
        self._opened: RowScorer | None = None

    @classmethod
    def of(cls, folder: Path, opener: Opener) -> SentModel:
        """Return the model of a directory."""
        paths = (path for path in sorted(folder.iterdir()) if path.name not in ATTACHED)
        return cls({path.name: path.read_bytes() for path in paths}, opener)

    def __reduce__(self) -> tuple[Any, ...]:
        return SentModel, (self.files, self.opener)

    def load(self, backend: Backend) -> RowScorer:
        """Return the model, ready to predict in this process."""
        with _opening:
            if self._opened is None:
                self._opened = self._open(backend)
        return self._opened

    def _open(self, backend: Backend) -> RowScorer:
        with TemporaryDirectory(prefix="gpupipe-model-") as name:
            for file, content in self.files.items():
                (Path(name) / file).write_bytes(content)
            model = self.opener(Path(name), backend)
        limit_threads(blas=1)  # permanent: concurrent tasks that set and restore it would undo each other's limit
        return model


@dataclass(frozen=True)
class ScoringResult:
    """Result of a batch scoring on workers.

    `notes` are warnings, such as rows that were split for lack of memory. `report` is on all rows. `copied` are the
    input columns that were copied.
    """

    n_rows: int
    notes: tuple[str, ...]
    report: RowReport | None = None
    copied: tuple[str, ...] = ()


def score_chunks(
    chunks: list[ArrowChunk],
    model: SentModel,
    folder: Path,
    workers: Workers,
    tables: Mapping[str, str] | None = None,
    as_of: str | None = None,
    copied: Sequence[str] = (),
    *,
    explain: int = 0,
) -> ScoringResult:
    """Write the predictions of the rows of a source: ``part-00000.parquet`` and so on, in their order.

    `chunks` are released as they are scored: the list is empty afterwards. `folder` is absolute and empty, reachable by
    all workers. `tables` and `as_of` are as in `gpupipe.inference.model.Model.predict`. `copied` are the columns of the
    chunks to write before the predictions. `explain` is the number of the strongest contributions to write for each
    prediction. Raise ConfigError if a worker cannot write there; LimitError if the disk is full; SchemaError if a
    column is absent or holds values of another kind.
    """
    sent, n = workers.put(model), len(chunks)
    first_rows = [0, *accumulate(chunk.n_rows for chunk in chunks)]
    each = (
        (chunks.pop(0).rows, sent, str(folder / f"part-{i:05}.parquet"), first_rows[i], tables, as_of, copied, explain)
        for i in range(n)
    )
    handles = workers.map(_score_chunk, each, [f"scoring chunk {i + 1} of {n}" for i in range(n)])
    return _finished(workers, handles, folder)


def score_as_one(
    source: TableSource,
    model: SentModel,
    folder: Path,
    workers: Workers,
    tables: Mapping[str, str] | None = None,
    as_of: str | None = None,
    choose: ChooseColumns | None = None,
    *,
    explain: int = 0,
) -> ScoringResult:
    """Have one worker read and score all rows, and write them as one file; see `score_chunks`.

    The paths of `source`, and the files in `tables`, are absolute. `choose` returns the input columns to write before
    the predictions.
    """
    file = str(folder / "part-00000.parquet")
    sent, label = workers.put(model), "scoring all rows"
    handle = workers.submit(_score_all, source, sent, file, tables, as_of, choose, explain, label=label)
    return _finished(workers, [handle], folder)


def _finished(workers: Workers, handles: Sequence[ResultHandle[ScoringResult]], folder: Path) -> ScoringResult:
    """Wait for all files, and remove hidden files of workers that were lost while writing."""
    written = workers.gather(handles)
    for path in folder.glob(".part-*.parquet.tmp-*"):
        path.unlink(missing_ok=True)
    notes = dict.fromkeys(chain.from_iterable(part.notes for part in written))
    reports = [part.report for part in written if part.report is not None]
    report = reduce(lambda first, second: first.merge(second), reports) if reports else None
    return ScoringResult(
        sum(part.n_rows for part in written), tuple(notes), report, written[0].copied if written else ()
    )


def _score_chunk(
    backend: Backend,
    rows: pa.Table,
    model: SentModel,
    file: str,
    first_row: int,
    tables: Mapping[str, str] | None,
    as_of: str | None,
    copied: Sequence[str],
    explain: int,
) -> ScoringResult:
    with rows_counted_after(first_row):
        table = widen_codes(rows)
        return _score(table, model.load(backend), file, tables, as_of, explain, _plain(table.select(list(copied))))


def _score_all(
    backend: Backend,
    source: TableSource,
    model: SentModel,
    file: str,
    tables: Mapping[str, str] | None,
    as_of: str | None,
    choose: ChooseColumns | None,
    explain: int,
) -> ScoringResult:
    if choose is None:
        return _score(source, model.load(backend), file, tables, as_of, explain)
    files = input_files(source)
    names = choose(stored_names(source, files))
    table = read_arrow(source, files=files, may_be_empty=True).table
    copied = read_stored(source, names, files) if names else None
    return _score(table, model.load(backend), file, tables, as_of, explain, copied)


def _score(
    data: Any,
    model: RowScorer,
    file: str,
    tables: Mapping[str, str] | None,
    as_of: str | None,
    explain: int,
    copied: pa.Table | None = None,
) -> ScoringResult:
    table = model.predict_table(data, tables, as_of, explain=explain)
    names = [] if copied is None else copied.column_names
    if copied is not None and names:
        columns = [*copied.columns, *table.columns]
        table = pa.table(columns, names=[*names, *table.column_names])
    _write(table, Path(file))
    return ScoringResult(table.num_rows, tuple(model.backend.take_notes()), model.last_prediction_report, tuple(names))


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without dictionary columns, an artefact of readers."""
    columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names)


def _write(table: pa.Table, file: Path) -> None:
    """Write a file atomically, also if other workers repeat the task."""
    hidden = file.with_name(f".{file.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with hidden.open("wb") as out:  # Arrow supports UTF-8 names only
            pq.write_table(table, out)
        hidden.replace(file)
    except OSError as error:
        raise _cannot_write(file, error) from error
    finally:
        hidden.unlink(missing_ok=True)


def _cannot_write(file: Path, error: OSError) -> ConfigError | LimitError:
    where = f"{file}, process {os.getpid()} on {socket.gethostname()}"
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LimitError(
            f"a worker cannot write its file: {reason}", where=where, fix="free space, or choose another folder"
        )
    return ConfigError(
        f"a worker cannot write its file: {reason}",
        where=where,
        fix="use a folder that every worker can write under this path, or --cluster local",
    )
