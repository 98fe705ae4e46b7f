"""A test double of a device's dataframe library: pandas instead of cuDF.

It proves what `gpupipe.io.device` and `gpupipe.table.device` decide, and nothing of cuDF.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import orc, parquet

from gpupipe.backends.base import DeviceBackend
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.typing import Array


class PandasBackend(CpuBackend, DeviceBackend):
    """The backend of the host with frames of pandas."""

    frame = pd

    def read_columns(
        self, file_format: str, paths: Sequence[str], columns: Sequence[str], groups: Sequence[int] | None = None
    ) -> Any:
        """Return columns of files as a pandas DataFrame of Arrow types."""

        def read(path: str) -> Any:
            file = {"parquet": parquet.ParquetFile, "orc": orc.ORCFile}[file_format](path)
            table = (file.read if groups is None else partial(file.read_row_groups, list(groups)))(
                columns=list(columns)
            )
            return table.select(columns).replace_schema_metadata(None)

        table = pa.concat_tables(map(read, paths))
        kinds = [pa.timestamp("s") if pa.types.is_date(field.type) else field.type for field in table.schema]
        return table.cast(pa.schema(zip(columns, kinds, strict=True))).to_pandas(types_mapper=pd.ArrowDtype)

    def values(self, series: Any, dtype: str) -> Array:
        """Return a series of numbers or booleans as an array."""
        missing = {"na_value": self.xp.nan} if self.xp.dtype(dtype).kind == "f" else {}
        values: Array = series.to_numpy(dtype=dtype, **missing)
        return values

    def ticks(self, series: Any) -> tuple[Array, str]:
        """Return a series of times as int64 and their unit."""
        unit = str(series.dtype).partition("[")[2][:2].rstrip("],")  # of "datetime64[ns, UTC]", "timestamp[s][pyarrow]"
        missing = self.xp.datetime64("NaT", unit)
        return series.to_numpy(dtype=f"datetime64[{unit}]", na_value=missing).view("int64"), unit

    def to_arrow(self, series: Any) -> Any:
        """Return a series as a ``pyarrow.Array``."""
        array = pa.array(series)
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
