"""Generated tables on a device: generated on the host, then copied."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import DeviceBackend
from gpupipe.errors import DataError
from gpupipe.io.chunks.chunk_reader import generate_rows
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.settings import TableSource
from gpupipe.table.device.frame_columns import DeviceDictionary, DeviceNumbers

Columns = dict[str, DeviceNumbers | DeviceDictionary]


def generate_columns(source: TableSource, wanted: ColumnFilter, backend: DeviceBackend) -> Columns:
    """Return the generated columns of a source, for `gpupipe.table.device.encode.encode_frame`.

    Raise DataError if there are no rows, because no customer has an event.
    """
    backend.note(f"{source.generate}: generated on the host, then copied to the device")
    table = generate_rows(source, wanted, (0, source.rows))
    if not table.num_rows:
        raise DataError("there are no rows", where=source.label, fix="set more rows")
    return {name: _moved(column, backend) for name, column in zip(table.column_names, table.columns, strict=True)}


def _moved(column: pa.ChunkedArray, backend: DeviceBackend) -> DeviceNumbers | DeviceDictionary:
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        coded = column.unify_dictionaries().combine_chunks()
        return DeviceDictionary(backend.to_device(np.asarray(coded.indices.fill_null(-1))), coded.dictionary)
    held = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    found, valid = held.fill_null(0).to_numpy(), np.asarray(column.is_valid())
    return DeviceNumbers(backend.to_device(found), backend.to_device(valid), column.type)
