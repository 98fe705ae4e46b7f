"""Child process of `gpupipe.io.isolation`: reads one file per request and replies with the outcome."""

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
from gpupipe.io.file_formats import FORMATS
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.parquet import read_groups
from gpupipe.io.formats.parquet_footers import read_groups_of
from gpupipe.io.formats.readers import load_reader
from gpupipe.io.isolation import READ, REFUSED
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import clean_table
from gpupipe.io.settings import TableSource


def answer(message: bytes) -> bytes:
    """Read the file of a request; return the outcome and the path of the file.

    Raise MemoryError if memory runs out.
    """
    settings, file = pickle.loads(message)  # trusted: sent by the parent process
    outcome = REFUSED
    try:
        _read(file, TableSource.model_validate_json(settings))
        outcome = READ
    except GpupipeError as error:  # the parent process will raise the same error
        if any(isinstance(cause, MemoryError) for cause in _causes(error)):
            raise MemoryError from error
    finally:
        pa.default_memory_pool().release_unused()
    return outcome + os.fsencode(file.path)


def _read(file: SourceFile, source: TableSource) -> None:
    """Read all columns of a file, with the same readers as a run."""
    wanted = ColumnFilter(source)
    if file.format != "parquet":
        read_chunk(SourceChunk(file), source, wanted)
        return
    notes, n_groups = Notes(), len(read_groups_of(file, source).decoded)
    for table in read_groups(file, wanted, notes, [[group] for group in range(n_groups)]):
        if table.num_rows:
            clean_table(table, file, wanted, notes, source.strips_typed_files)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause or context, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def main() -> None:
    """Import the readers, so that imports do not count towards the limits, and serve requests."""
    for name in FORMATS:
        load_reader(name)
    pa.set_cpu_count(machine.n_threads())
    serve(answer)


if __name__ == "__main__":
    main()
