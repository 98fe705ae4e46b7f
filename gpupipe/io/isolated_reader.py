"""Child process of `gpupipe.io.isolation`: for each question it reads one file, and answers whether it could."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator

import pyarrow as pa

from gpupipe.backends import machine
from gpupipe.children import serve
from gpupipe.errors import GpupipeError
from gpupipe.io.chunks.chunk import SourceChunk
from gpupipe.io.chunks.chunk_reader import read_chunk
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.parquet import read_groups
from gpupipe.io.formats.parquet_footers import read_groups_of
from gpupipe.io.formats.registry import FORMATS, load_reader
from gpupipe.io.isolation import READ, REFUSED
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import clean_table
from gpupipe.io.settings import TableSource


def answer(message: bytes) -> bytes:
    """Read the file that a question names, and return the outcome and its path.

    Raises
    ------
    MemoryError
        If memory runs out.
    """
    settings, file = pickle.loads(message)  # of the process that started this one
    outcome = REFUSED
    try:
        _read(file, TableSource.model_validate_json(settings))
        outcome = READ
    except GpupipeError as error:  # the process that asks will meet it too
        if any(isinstance(cause, MemoryError) for cause in _causes(error)):
            raise MemoryError from error
    finally:
        pa.default_memory_pool().release_unused()
    return outcome + os.fsencode(file.path)


def _read(file: SourceFile, source: TableSource) -> None:
    """Read all columns of a file, as `gpupipe.io.source_reader.read_arrow` and streams of row groups do."""
    wanted = ColumnFilter(source)
    if file.format != "parquet":
        read_chunk(SourceChunk(file), source, wanted)
        return
    notes, n_groups = Notes(), len(read_groups_of(file, source).decoded)
    for table in read_groups(file, wanted, notes, [[group] for group in range(n_groups)]):
        if table.num_rows:
            clean_table(table, file, wanted, notes)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it was raised from, or while."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def main() -> None:
    """Import what reading needs, which the limits do not count, and serve."""
    for name in FORMATS:
        load_reader(name)
    pa.set_cpu_count(machine.n_threads())
    serve(answer)


if __name__ == "__main__":
    main()
