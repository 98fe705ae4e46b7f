"""Batch scoring on workers: each writes the predictions of its chunks as files of one folder.

The model travels as the bytes of its files and is opened on each worker, where every hash is checked again: what a
library loads need not be picklable. The folder must be one that all workers reach, under one path.
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
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from gpupipe.backends.base import Backend
from gpupipe.errors import ConfigError, LimitError
from gpupipe.io.chunks.compact_tables import widen_codes
from gpupipe.io.input_files import input_files
from gpupipe.io.raw_columns import read_stored, stored_names
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.models.threads import limit_threads
from gpupipe.partitions.source_chunks import ArrowChunk
from gpupipe.partitions.workers import ResultHandle, Workers
from gpupipe.table.encode_chunks import rows_counted_after

_opening = threading.Lock()


class RowReport(Protocol):
    """A report on rows that were scored, as `gpupipe.pipeline.model.prediction_report.PredictionReport` is one."""

    def merge(self, other: Any) -> Any:
        """Return the report on the rows of both."""

    def lines(self) -> list[str]:
        """Return it in words."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""


class Scorer(Protocol):
    """A model as `gpupipe.pipeline.model.model.Model` is one; `backend` tells what is to be known of the work."""

    @property
    def backend(self) -> Backend:
        """Where it computes."""

    @property
    def last_prediction_report(self) -> RowReport | None:
        """The report on the rows that this thread has scored last."""

    def predict_table(self, data: Any, tables: Mapping[str, Any] | None = None, as_of: str | None = None) -> pa.Table:
        """Return a table with a row for each row of `data`, in their order."""


Opener = Callable[[Path, Backend], Scorer]


ChooseColumns = Callable[[Sequence[str]], Sequence[str]]  # of the columns of the input; cloudpickle sends it


class SentModel:
    """A model that is sent to workers, and opened once by each process that has it.

    Parameters
    ----------
    files : mapping of str to bytes
        Everything in its directory.
    opener : callable
        Opens a directory with these files, and keeps none of them open; it can be pickled.
    """

    def __init__(self, files: Mapping[str, bytes], opener: Opener) -> None:
        self.files, self.opener = files, opener
        self._opened: Scorer | None = None

    @classmethod
    def of(cls, folder: Path, opener: Opener) -> SentModel:
        """Return the model of a directory."""
        return cls({path.name: path.read_bytes() for path in sorted(folder.iterdir())}, opener)

    def __reduce__(self) -> tuple[Any, ...]:
        return SentModel, (self.files, self.opener)

    def load(self, backend: Backend) -> Scorer:
        """Return the model, ready to predict in this process."""
        with _opening:
            if self._opened is None:
                self._opened = self._open(backend)
        return self._opened

    def _open(self, backend: Backend) -> Scorer:
        with TemporaryDirectory(prefix="gpupipe-model-") as name:
            for file, content in self.files.items():
                (Path(name) / file).write_bytes(content)
            model = self.opener(Path(name), backend)
        limit_threads(blas=1)  # for good: tasks of one process that each set and restore it undo each other's limit
        return model


@dataclass(frozen=True)
class ScoringResult:
    """Result of a batch scoring on workers.

    Attributes
    ----------
    n_rows : int
    remarks : tuple of str
        What is to be known of the work: that memory was short, and rows were split.
    report : RowReport, optional
        On all rows.
    copied : tuple of str
        Columns of the input that are beside the predictions.
    """

    n_rows: int
    remarks: tuple[str, ...]
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
) -> ScoringResult:
    """Write the predictions of the rows of a source: ``part-00000.parquet`` and so on, in their order.

    Parameters
    ----------
    chunks : list of ArrowChunk
        Let go of as they are scored: the list is empty afterwards.
    model : SentModel
    folder : Path
        Absolute, empty, and there for all workers.
    workers : Workers
    tables, as_of
        As in `gpupipe.pipeline.model.model.Model.predict`.
    copied : sequence of str
        Columns of the chunks to write before the predictions.

    Raises
    ------
    ConfigError
        If a worker cannot write there; it is named with its path.
    LimitError
        If there is no room left.
    SchemaError
        If a column is absent or holds values of another kind.
    """
    sent, n = workers.put(model), len(chunks)
    first_rows = [0, *accumulate(chunk.n_rows for chunk in chunks)]
    each = (
        (chunks.pop(0).rows, sent, str(folder / f"part-{i:05}.parquet"), first_rows[i], tables, as_of, copied)
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
) -> ScoringResult:
    """Have one worker read and score all rows, and write them as one file; see `score_chunks`.

    Parameters
    ----------
    source : TableSource
        Its paths are absolute.
    model, folder, workers
        As in `score_chunks`.
    tables, as_of
        As in `gpupipe.pipeline.model.model.Model.predict`; the files are absolute.
    choose : callable, optional
        Returns which columns of the input are written before the predictions.
    """
    file = folder / "part-00000.parquet"
    sent = workers.put(model)
    handle = workers.submit(_score_all, source, sent, str(file), tables, as_of, choose, label="scoring all rows")
    return _finished(workers, [handle], folder)


def _finished(workers: Workers, handles: Sequence[ResultHandle[ScoringResult]], folder: Path) -> ScoringResult:
    """Wait for all files, and remove the hidden ones that workers left which were lost while they wrote."""
    written = workers.gather(handles)
    for path in folder.glob(".part-*.parquet.tmp-*"):
        path.unlink(missing_ok=True)
    remarks = dict.fromkeys(remark for part in written for remark in part.remarks)
    reports = [part.report for part in written if part.report is not None]
    report = reduce(lambda first, second: first.merge(second), reports) if reports else None
    return ScoringResult(
        sum(part.n_rows for part in written), tuple(remarks), report, written[0].copied if written else ()
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
) -> ScoringResult:
    with rows_counted_after(first_row):
        table = widen_codes(rows)
        return _score(table, model.load(backend), file, tables, as_of, _plain(table.select(list(copied))))


def _score_all(
    backend: Backend,
    source: TableSource,
    model: SentModel,
    file: str,
    tables: Mapping[str, str] | None,
    as_of: str | None,
    choose: ChooseColumns | None,
) -> ScoringResult:
    if choose is None:
        return _score(source, model.load(backend), file, tables, as_of)
    files = input_files(source)
    names = choose(stored_names(source, files))
    table = read_arrow(source, files=files, may_be_empty=True).table
    return _score(table, model.load(backend), file, tables, as_of, read_stored(source, names, files) if names else None)


def _score(
    data: Any,
    model: Scorer,
    file: str,
    tables: Mapping[str, str] | None,
    as_of: str | None,
    copied: pa.Table | None = None,
) -> ScoringResult:
    table = model.predict_table(data, tables, as_of)
    names = [] if copied is None else copied.column_names
    if copied is not None and names:
        columns = [*copied.columns, *table.columns]
        table = pa.table(columns, names=[*names, *table.column_names])
    _write(table, Path(file))
    return ScoringResult(
        table.num_rows, tuple(model.backend.take_remarks()), model.last_prediction_report, tuple(names)
    )


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without dictionaries, which are an encoding of readers."""
    columns = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
    return pa.table(columns, names=table.column_names)


def _write(table: pa.Table, file: Path) -> None:
    """Write a file that is there complete or not at all, however often, and wherever else, this is done again."""
    hidden = file.with_name(f".{file.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with hidden.open("wb") as out:  # Arrow opens UTF-8 names only
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
        return LimitError(f"a worker cannot write its part: {reason}", where=where, fix="make room, or name another")
    return ConfigError(
        f"a worker cannot write its part: {reason}",
        where=where,
        fix="name a folder that every worker reaches under this very path and may write to, or use --cluster local",
    )
