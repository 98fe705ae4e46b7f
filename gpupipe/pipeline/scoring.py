"""A table in, predictions out: a file, or from the workers of a cluster a folder of files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpupipe.artifact import ArtifactReader
from gpupipe.backends.base import Backend
from gpupipe.cluster.workers import Workers
from gpupipe.config.cluster import ClusterSettings
from gpupipe.errors import ConfigError
from gpupipe.pipeline.disk import room_on
from gpupipe.pipeline.model import BATCH_ROWS, Model, load_model, open_model
from gpupipe.pipeline.renaming import sync
from gpupipe.pipeline.rules import by_column, settle_served
from gpupipe.pipeline.rundir import RunDirectory
from gpupipe.pipeline.spread import broken_rules
from gpupipe.readers.files import mask
from gpupipe.readers.settings import TableSource

if TYPE_CHECKING:
    from gpupipe.cluster.source_pieces import ArrowPieces

Say = Callable[[str], None]

ENDINGS = (".csv", ".parquet")
ROOM = "make room, or name an output on another disk"


def score(
    model: str | Path,
    data: str | None,
    output: Path,
    device: str = "auto",
    tables: Mapping[str, str] | None = None,
    as_of: str | None = None,
    allow_code: bool = False,
    say: Say = lambda text: None,
) -> int:
    """Write the predictions of `data` to `output`, and return how many there are.

    Parameters
    ----------
    model : str or Path
        A run directory or a model directory.
    data : str, optional
        File, glob, folder or URL. None: the rows are made of the event tables, see `Model.predict_entities`.
    output : Path
        ``.csv`` or ``.parquet``; written under another name and renamed, so it is there complete or not at all.
    device : {"auto", "cpu", "gpu"}
    tables : mapping of str to str, optional
        The further tables that features are made of: name to file, glob, folder or URL.
    as_of : str, optional
        An ISO date or time in place of the cut-off dates of the training.
    allow_code : bool
        Whether users' kernels that the model holds may run.
    say : callable
        Told what is to be known of the work: that memory was short, and rows were split.

    Raises
    ------
    ConfigError
        If `output` has another ending, or its folder cannot be written to.
    GpupipeError
        As `load_model` and `Model.predict`.
    """
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    if output.suffix not in ENDINGS:
        raise ConfigError(
            f"cannot write {output.suffix or 'a file without an ending'}", fix=f"end it {' or '.join(ENDINGS)}"
        )
    _require_folder(output.parent)
    hidden = output.with_name(f".{output.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")
    _require_writable(hidden)
    loaded = load_model(model, device, allow_code=allow_code)
    if data is None:
        table = loaded.predict_entities(tables or {}, _required(as_of))
    else:
        table = loaded.predict_table(data, tables, as_of)
    for remark in loaded.backend.take_remarks():
        say(remark)
    try:
        with room_on(output.parent, ROOM):
            (pa_csv.write_csv if output.suffix == ".csv" else pq.write_table)(table, hidden)
            sync(hidden)  # or a power cut could leave the name without the content
            hidden.replace(output)
    finally:
        hidden.unlink(missing_ok=True)
    return int(table.num_rows)


def score_on_cluster(
    model: str | Path,
    data: str,
    output: Path,
    cluster: ClusterSettings,
    device: str = "auto",
    tables: Mapping[str, str] | None = None,
    as_of: str | None = None,
    allow_code: bool = False,
    say: Say = lambda text: None,
) -> int:
    """Have the workers of a cluster write the predictions of `data` into a folder; return how many there are.

    The folder has Parquet files, whose names are in the order of the rows, and nothing else. What they hold is what
    `score` writes. Columns that features derive of keys and texts need all rows: one worker reads and scores them then.

    Parameters
    ----------
    model, data, device, tables, as_of, allow_code, say
        As in `score`; `data` and `tables` are there for all workers, under the same paths.
    output : Path
        A folder that all workers reach under this path; there complete or not at all. It may exist if it is empty.
    cluster : ClusterSettings
        Which workers.

    Raises
    ------
    ConfigError
        If `output` is something else, or a worker cannot write there.
    ClusterError
        If the workers cannot be had, or were lost for good.
    GpupipeError
        As `score`.
    """
    _require_new(output)
    loaded = load_model(model, "cpu", allow_code=allow_code)  # what is wrong with it is said before workers are started
    from gpupipe.cluster.connect import connected

    # The workers end before what they could not finish is removed.
    with room_on(output.parent, ROOM), RunDirectory(output) as directory, connected(cluster, device) as workers:
        say(f"{workers.n_workers} workers, on the {workers.device}: {workers.reason}")
        n_rows = score_spread(loaded, data, directory.path, workers, tables, as_of, allow_code, say)
        for remark in workers.remarks():
            say(remark)
    return n_rows


def score_spread(
    model: Model,
    data: str,
    folder: Path,
    workers: Workers,
    tables: Mapping[str, str] | None = None,
    as_of: str | None = None,
    allow_code: bool = False,
    say: Say = lambda text: None,
) -> int:
    """Have workers write the predictions of `data` into an empty folder; see `score_on_cluster`."""
    from gpupipe.cluster.scoring import SentModel, score_pieces, score_whole
    from gpupipe.cluster.source_pieces import read_pieces

    data, tables = _absolute(data), {name: _absolute(path) for name, path in (tables or {}).items()}
    if model.features.derivation is not None:
        say("features of keys and texts need all rows at once: one worker reads and scores them")
        sent = SentModel.of(model.folder, partial(_opened, allow_code=allow_code))
        written = score_whole(data, sent, folder, workers, tables, as_of)
    else:
        found = read_pieces(TableSource(path=data, csv=model.manifest["reading"]["csv"]), workers, workers.n_threads)
        for path in found.whole:
            say(f"{path} cannot be cut: it was read by one worker")
        for warning in _enforce(model, found, workers, data):
            say(warning)
        n_rows = sum(piece.n_rows for piece in found.pieces)
        # That of one machine, which takes so many rows at a time: interpreters differ in the last bit.
        engine = model.backend.interpreter(model.features.program, min(n_rows, BATCH_ROWS))
        sent = SentModel.of(model.folder, partial(_opened, allow_code=allow_code, engine=engine))
        written = score_pieces(found.pieces, sent, folder, workers, tables, as_of)
    for remark in written.remarks:
        say(remark)
    return written.n_rows


def _enforce(model: Model, found: ArrowPieces, workers: Workers, data: str) -> list[str]:
    """Have the workers judge all rows before the first of them is scored; return what is to be said of them."""
    from gpupipe.cluster.rules import partitioned_columns

    served = [each for each in model.rules if each.column in found.schema.names]
    if not served:
        return []
    declared = {each.column: each.declared for each in served}
    table = partitioned_columns(found, list(declared), workers, declared)
    return settle_served(broken_rules(table, by_column(served), model.backend.host), mask(data))


def _opened(folder: Path, backend: Backend, *, allow_code: bool, engine: str | None = None) -> Model:
    """Return the model for all rows; or, with an engine, for pieces of them, which were judged together before."""
    model = open_model(ArtifactReader(folder), backend, allow_code)
    return model if engine is None else replace(model, engine=engine, rules=())


def _required(as_of: str | None) -> str:
    if as_of is None:
        fix = "name the INPUT to score; or give --as-of DATE, for a model whose rows are made of events"
        raise ConfigError("no INPUT is named", fix=fix)
    return as_of


def _absolute(path: str) -> str:
    """Return a path as it means the same wherever a worker was started."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def _require_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise ConfigError("the folder does not exist", where=str(folder), fix="make it first")


def _require_writable(hidden: Path) -> None:
    """Raise a ConfigError if the file cannot be made: before hours of work, not after them."""
    try:
        hidden.touch()
        hidden.unlink()
    except OSError as error:
        fix = "name a file in a folder that can be written to"
        raise ConfigError(f"cannot write here: {error.strerror}", where=str(hidden.parent), fix=fix) from error


def _require_new(output: Path) -> None:
    """Raise a ConfigError unless `output` can become a folder of predictions."""
    _require_folder(output.absolute().parent)
    if output.suffix in ENDINGS:
        raise ConfigError(
            "the workers of a cluster write a folder of Parquet files, not one file", where=str(output),
            fix=f"name a folder, as in {output.with_suffix('')}; or leave --cluster out",
        )  # fmt: skip
    if output.is_symlink() or (output.exists() and (not output.is_dir() or any(output.iterdir()))):
        raise ConfigError(
            "predictions need a folder of their own", where=str(output), fix="name one that is new, or empty"
        )
