"""The host's backend with frames of pandas, which stand for cuDF's where code for a device is tested on the host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from io import BytesIO
from typing import Any

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.typing import Array


class _Written(str):
    """A number of JSON as it is written: no text."""


def _written(value: str | bool | None) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if type(value) is str else value


class PandasFrames(CpuBackend):
    """Reads files and takes columns apart with pandas, as `gpupipe.backends.gpu.backend.GpuBackend` does with cuDF."""

    @property
    def frame(self) -> Any:
        """The dataframe namespace, ``pandas``."""
        import pandas

        return pandas

    def read_columns(
        self, file_format: str, paths: Sequence[str], columns: Sequence[str], groups: Sequence[int] | None = None
    ) -> Any:
        """Return columns of files as a pandas DataFrame of Arrow types; see `Backend.read_columns`."""
        import pyarrow as pa
        from pyarrow import orc, parquet

        def read(path: str) -> Any:
            file = {"parquet": parquet.ParquetFile, "orc": orc.ORCFile}[file_format](path)
            table = (file.read if groups is None else partial(file.read_row_groups, list(groups)))(
                columns=list(columns)
            )
            return table.select(columns).replace_schema_metadata(None)

        table = pa.concat_tables(map(read, paths))
        kinds = [pa.timestamp("s") if pa.types.is_date(field.type) else field.type for field in table.schema]
        return table.cast(pa.schema(zip(columns, kinds, strict=True))).to_pandas(types_mapper=self.frame.ArrowDtype)

    def read_texts(
        self, content: BytesIO, names: Sequence[str], columns: Sequence[str], delimiter: str, quote: str | None
    ) -> Any:
        """Return columns of CSV rows as a pandas DataFrame of strings; see `Backend.read_texts`."""
        return self.frame.read_csv(
            content, sep=delimiter, header=None, names=list(names), usecols=list(columns), dtype=str,
            keep_default_na=False, na_filter=False, quotechar=quote or '"', quoting=0 if quote else 3,
        )  # fmt: skip

    def read_json_texts(self, content: BytesIO, columns: Sequence[str]) -> Any:
        """Return columns of JSON lines as a pandas DataFrame of strings; see `Backend.read_json_texts`."""
        import json

        decode = partial(json.loads, parse_int=_Written, parse_float=_Written, parse_constant=_Written)
        objects = [decode(line) for line in content if line.strip()]
        rows = [{name: _written(value) for name, value in found.items()} for found in objects]
        return self.frame.DataFrame(rows, columns=list(columns), dtype="str")

    def values(self, series: Any, dtype: str) -> Array:
        """Return a series of numbers or booleans as an array; see `Backend.values`."""
        missing = {"na_value": self.xp.nan} if self.xp.dtype(dtype).kind == "f" else {}
        values: Array = series.to_numpy(dtype=dtype, **missing)
        return values

    def ticks(self, series: Any) -> tuple[Array, str]:
        """Return a series of times as int64 and their unit; see `Backend.ticks`."""
        unit = str(series.dtype).partition("[")[2][:2].rstrip("],")  # of "datetime64[ns, UTC]", "timestamp[s][pyarrow]"
        missing = self.xp.datetime64("NaT", unit)
        return series.to_numpy(dtype=f"datetime64[{unit}]", na_value=missing).view("int64"), unit

    def to_arrow(self, series: Any) -> Any:
        """Return a series as a ``pyarrow.Array``."""
        import pyarrow as pa

        array = pa.array(series)
        return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
