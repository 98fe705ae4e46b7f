"""Streaming of Parquet files on a device in chunks, for sources that do not fit in its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gpupipe.backends.base import DeviceBackend
from gpupipe.errors import DataError
from gpupipe.io.chunks.parquet_stream import ParquetStream
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.device.filter import filter_columns
from gpupipe.io.device.obstacles import guard_device_read
from gpupipe.io.device.source_reader import device_column, text_rules
from gpupipe.io.file_streams import open_file
from gpupipe.io.files import SourceFile, mask
from gpupipe.io.notes import Notes
from gpupipe.io.plain_tables import usable_names
from gpupipe.table.device.encode import TextRules

Columns = dict[str, Any]


@dataclass
class FrameStream:
    """A Parquet source that a device reads in chunks.

    Attributes
    ----------
    notes : Notes
        Dropped columns, complete after all chunks have been read; encoding adds further notes.
    """

    stream: ParquetStream
    backend: DeviceBackend
    notes: Notes = field(default_factory=Notes)

    @property
    def rules(self) -> TextRules:
        """Rules for the strings."""
        return text_rules(self.notes, self.stream.source.strips_typed_files)

    def columns(self) -> Iterator[Columns]:
        """Yield the columns of each non-empty chunk, in the form of `read_frame`.

        Raise DataError if a file cannot be read, or there are no rows; SchemaError if a column is missing.
        """
        source, wanted, n_rows = self.stream.source, ColumnFilter(self.stream.source), 0
        for file in self.stream.files:
            chunks = [chunk.groups for chunk in self.stream.chunks if chunk.file is file]
            for columns in self._of_file(file, chunks, wanted):
                if source.where:
                    columns = filter_columns(columns, source.where, self.rules, self.backend)
                wanted.check(list(columns), mask(source.label))
                found = len(next(iter(columns.values())))
                n_rows += found
                if found:
                    yield {name: column for name, column in columns.items() if wanted.is_wanted(name)}
        if not n_rows:
            raise DataError("no row passes the filter", where=f"where: {source.where}", fix="loosen the filter")

    def _of_file(
        self, file: SourceFile, chunks: Sequence[tuple[int, ...] | None], wanted: ColumnFilter
    ) -> Iterator[Columns]:
        with open_file(file) as handle:
            schema = pq.read_schema(handle)
        names = usable_names(schema, file, wanted, self.notes)
        typed = [name for name in names if not pa.types.is_null(schema.field(name).type)]
        if not chunks:
            self.notes.add(f"no rows in {mask(file.path)}")
        for groups in chunks:
            with guard_device_read(file):
                frame = self.backend.read_columns("parquet", [file.path], typed, groups)
            if len(frame):
                yield {name: device_column(name, schema.field(name).type, frame, self.backend) for name in names}
