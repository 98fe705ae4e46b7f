"""Generated tables on a device: customers are generated there, bit for bit as on the host; events are copied."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from gpupipe.backends.base import DeviceBackend
from gpupipe.datasets.churn.customers import ID, LEVELS, SCHEMA, CustomerBlock, customer_ids, values
from gpupipe.datasets.churn.population import MISSING, Population
from gpupipe.errors import DataError
from gpupipe.io.chunks.chunk_reader import generate_rows
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.settings import TableSource
from gpupipe.table.device.frame_columns import DeviceDictionary, DeviceNumbers
from gpupipe.typing import Array, ArrayNamespace

BLOCK_ROWS = 1 << 20  # enough to use a device fully; needs about 250 bytes per row besides the columns

Columns = dict[str, DeviceNumbers | DeviceDictionary]


def generate_columns(source: TableSource, wanted: ColumnFilter, backend: DeviceBackend) -> Columns:
    """Return the generated columns of a source, for `gpupipe.table.device.encode.encode_frame`.

    Raise DataError if there are no rows, because no customer has an event.
    """
    if source.generate == "churn":
        return _customers(source, wanted.pick(SCHEMA.names), backend)
    backend.note(f"{source.generate}: generated on the host, then copied to the device")
    table = generate_rows(source, wanted, (0, source.rows))
    if not table.num_rows:
        raise DataError("there are no rows", where=source.label, fix="set more rows")
    return {name: _moved(column, backend) for name, column in zip(table.column_names, table.columns, strict=True)}


def _customers(source: TableSource, names: list[str], backend: DeviceBackend) -> Columns:
    population = Population(backend)
    drawn: dict[str, list[tuple[Array, Array | None]]] = {name: [] for name in names if name != ID}
    for start in range(0, source.rows, BLOCK_ROWS):
        block = CustomerBlock(population, source.seed, start, min(BLOCK_ROWS, source.rows - start))
        for name, parts in drawn.items():
            parts.append(values(block, name))
    # The blocks of a column are released before the next column is concatenated.
    return {n: _joined(n, drawn.pop(n), backend.xp) if n in drawn else _ids(source, backend) for n in names}


def _joined(name: str, parts: list[tuple[Array, Array | None]], xp: ArrayNamespace) -> DeviceNumbers | DeviceDictionary:
    found = xp.concatenate([values for values, _ in parts])
    if name in LEVELS:
        return DeviceDictionary(found, LEVELS[name])
    some = name in MISSING
    valid = ~xp.concatenate([missing for _, missing in parts]) if some else xp.ones(len(found), "bool")
    return DeviceNumbers(found, valid, SCHEMA.field(name).type)


def _ids(source: TableSource, backend: DeviceBackend) -> DeviceDictionary:
    """Return the identifiers, whose distinct strings are generated on the host."""
    backend.note(f"{ID}: generated on the host")
    return DeviceDictionary(backend.xp.arange(source.rows, dtype="int32"), customer_ids(source.seed, 0, source.rows))


def _moved(column: pa.ChunkedArray, backend: DeviceBackend) -> DeviceNumbers | DeviceDictionary:
    if pa.types.is_dictionary(column.type):
        coded = column.unify_dictionaries().combine_chunks()
        return DeviceDictionary(backend.to_device(np.asarray(coded.indices.fill_null(-1))), coded.dictionary)
    held = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    found, valid = held.fill_null(0).to_numpy(), np.asarray(column.is_valid())
    return DeviceNumbers(backend.to_device(found), backend.to_device(valid), column.type)
