"""The setting ``frame``: a frame of any library, or the description of one in a saved configuration."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from gpupipe.io.in_memory import InMemoryTable, type_name


def is_in_memory(value: Any) -> bool:
    """Return True if a value is a frame of some library; False for built-in types such as dict, list and str."""
    if value is None or type(value).__module__ == "builtins":
        return False
    if isinstance(value, InMemoryTable):
        return True
    from gpupipe.table.frames import is_dask_frame, is_frame

    return is_dask_frame(value) or is_frame(value)


def read_frame_field(value: Any) -> InMemoryTable:
    """Return the table of the setting `frame`, which is a frame of any library or the description of one."""
    if isinstance(value, InMemoryTable):
        return value
    if isinstance(value, str) and value:
        return InMemoryTable(value)
    if not is_in_memory(value):
        raise ValueError(f"expected a frame (pandas, polars, pyarrow, DuckDB, cuDF, Dask); got {type_name(value)}")
    # Arrow shares memory with numeric pandas columns, which the caller may modify before they are read.
    return in_memory_table(value.copy() if type_name(value) == "pandas.DataFrame" else value)


def in_memory_table(value: Any) -> InMemoryTable:
    """Return a frame of any library, or a dict of columns, as the source of a configuration."""
    from gpupipe.table.frames import is_dask_frame

    if is_dask_frame(value):
        from gpupipe.io.dask_table import DaskTable

        return DaskTable(value)
    return InMemoryTable.of(value)


FrameField = Annotated[
    InMemoryTable,
    PlainValidator(read_frame_field),
    PlainSerializer(lambda frame: frame.label, return_type=str),
    WithJsonSchema({"type": "string"}),
]
