"""Access to device frames in chunks, for `gpupipe.table.encode_chunks.encode_chunks`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gpupipe.backends.base import DeviceBackend
from gpupipe.table.device.encode import ColumnEncoder, TextRules
from gpupipe.table.device.frame_columns import DeviceText
from gpupipe.table.encode import EncodePlan
from gpupipe.table.encode_chunks import TableChunks
from gpupipe.table.schema import Column

Columns = Mapping[str, Any]


class FrameChunks(TableChunks):
    """Access to chunks that are frames accepted by `gpupipe.table.device.encode.encode_frame`.

    `rules` for texts are the reader's; they must be stateless and return texts.
    """

    def __init__(self, backend: DeviceBackend, rules: TextRules) -> None:
        self.backend, self.rules, self.xp = backend, rules, backend.xp

    def names(self, chunk: Columns) -> list[str]:
        """Return the names of the columns."""
        return list(chunk)

    def n_rows(self, chunk: Columns) -> int:
        """Return the number of rows."""
        return len(next(iter(chunk.values())))

    def summarize(self, chunk: Columns, name: str, kind: str | None) -> pa.ChunkedArray:
        """Return a short column with the same schema; the rows stay on the device."""
        return ColumnEncoder(name, chunk[name], self.backend, self.rules).summarize(kind)

    def plan(self, chunk: Columns, column: Column) -> EncodePlan:
        """Return the encoder of a column's rows."""
        return ColumnEncoder(column.name, chunk[column.name], self.backend, self.rules).enforce(column)

    def concatenate(self, texts: list[DeviceText]) -> DeviceText:
        """Return the rows of a text column from all chunks."""
        return DeviceText(self.xp.concatenate([text.missing for text in texts]), self.backend)
