"""Outputs of a batch scoring: checked before any work, written complete or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from gpupipe.errors import ConfigError
from gpupipe.pipeline.disk import room_on
from gpupipe.pipeline.renaming import sync

ENDINGS = (".csv", ".parquet")
ROOM = "make room, or name an output on another disk"


def require_output_file(output: Path) -> None:
    """Raise ConfigError unless scores can be written to `output`: before hours of work, not after them."""
    if output.is_dir():
        raise ConfigError("the output is a folder", where=str(output), fix="name a file, such as scores.csv")
    if output.suffix not in ENDINGS:
        raise ConfigError(
            f"cannot write {output.suffix or 'a file without a suffix'}: scores are .csv or .parquet",
            where=str(output),
            fix=f"name it {output.name}.csv or {output.name}.parquet" if not output.suffix else "use one of the two",
        )
    require_folder(output.parent)
    try:
        hidden = hidden_name(output)
        hidden.touch()
        hidden.unlink()
    except OSError as error:
        fix = "name a file in a folder that can be written to"
        raise ConfigError(f"cannot write here: {error.strerror}", where=str(output.parent), fix=fix) from error


def require_folder(folder: Path) -> None:
    """Raise ConfigError unless the folder exists."""
    if not folder.is_dir():
        raise ConfigError("the folder of the output does not exist", where=str(folder), fix="make it first")


def rejected_path(output: Path) -> Path:
    """Return the file of the rejected rows: ``scores.rejected.csv`` for ``scores.csv``."""
    return output.with_name(f"{output.stem}.rejected{output.suffix}")


def hidden_name(output: Path) -> Path:
    """Return a name in the folder of `output` that no other process takes."""
    return output.with_name(f".{output.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")


def write_table(table: pa.Table, output: Path) -> None:
    """Write a table to a .csv or .parquet file, under another name first.

    Raises
    ------
    LimitError
        If the disk is full.
    """
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    with room_on(output.parent, ROOM), _replaced(output) as hidden:
        (pa_csv.write_csv if output.suffix == ".csv" else pq.write_table)(table, hidden)
        sync(hidden)  # or a power cut could leave the name without the content


@contextmanager
def _replaced(output: Path) -> Iterator[Path]:
    hidden = hidden_name(output)
    try:
        yield hidden
        hidden.replace(output)
    finally:
        hidden.unlink(missing_ok=True)
