"""Rows of a batch scoring in chunks, for files larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from gpupipe.errors import DataError
from gpupipe.inference.interface import LoadedModel
from gpupipe.io.chunks.chunk_stream import ChunkStream
from gpupipe.io.files import SourceFile
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.rules.enforcement import enforce_served

Notes = Callable[[str], None]


def enforce_rules(
    model: LoadedModel, source: TableSource, files: Sequence[SourceFile], found: Sequence[str], label: str, note: Notes
) -> None:
    """Enforce the rules of the model on all rows before any is scored: a value may be unique within a chunk only."""
    names = dict.fromkeys(each.column for each in model.rules if each.column in found)
    if names:
        rows = read_arrow(source, names, files=files, may_be_empty=True).table
        for warning in enforce_served(rows, model.rules, model.backend.host, label):
            note(warning)


def input_chunks(
    model: LoadedModel, source: TableSource, files: Sequence[SourceFile], names: Sequence[str], note: Notes
) -> Iterator[pa.Table]:
    """Yield the columns `names` of files: all rows at once if features are computed from other rows, or there are none.

    The types of columns of text files may differ between chunks.
    """
    n_rows, stream = 0, ChunkStream(source, files, names)
    if model.features.derivation is None and source.paths:
        try:
            for chunk in stream:
                n_rows += chunk.num_rows
                yield chunk
        except DataError:
            if n_rows:
                raise
    if not n_rows:
        yield read_arrow(source, names, files=files, may_be_empty=True).table
    for line in stream.notes.lines():
        note(line)
