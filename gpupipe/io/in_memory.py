"""In-memory tables as the source of a configuration."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ConfigError, DataError
from gpupipe.io.hashing_stream import HashingStream
from gpupipe.names import count_noun

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "memory"


class InMemoryTable:
    """A table passed from Python instead of files.

    `label`: description in messages and saved configurations: ``"pandas.DataFrame, 7,043 rows x 21 columns"``. `table`:
    the rows. None for a table loaded from a saved configuration, which stores the label only.
    """

    is_partitioned = False  # whether the rows are partitions of a Dask collection

    def __init__(self, label: str, table: pa.Table | None = None) -> None:
        self.label, self._table = label, table

    @classmethod
    def of(cls, frame: Any) -> InMemoryTable:
        """Return a frame of any supported library as a source; converts the rows to Arrow.

        Raise DataError or SchemaError as `gpupipe.table.frames.frame_to_arrow`.
        """
        from gpupipe.table.frames import frame_to_arrow

        name = type_name(frame)
        try:
            table = frame_to_arrow(frame)
        except DataError as error:
            error.place(name)
            raise
        size = f"{count(table.num_rows, 'row')} x {count(table.num_columns, 'column')}"
        return cls(f"{name}, {size}", table)

    @property
    def has_rows(self) -> bool:
        """True if the rows are available, not only their description."""
        return self._table is not None

    @property
    def table(self) -> pa.Table:
        """The rows as a pyarrow.Table.

        Raise ConfigError if only the description is available.
        """
        if self._table is None:
            raise ConfigError(
                "the configuration refers to a table in memory, which it does not contain",
                where=self.label,
                fix="pass the table again, as in gp.Pipeline.from_yaml(PATH).run(data=frame), or set a file: "
                "--set source.path=FILE (for other tables: tables={NAME: frame}, --set tables.NAME.path=FILE)",
            )
        return self._table

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.table.column_names)

    @property
    def n_bytes(self) -> int:
        """Bytes of the rows."""
        return int(self.table.nbytes)

    @cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of names, types and values, equal for equal tables."""
        import pyarrow as pa

        hashing = HashingStream()
        with pa.ipc.new_stream(pa.PythonFile(hashing, mode="w"), self.table.schema) as stream:
            stream.write_table(self.table)
        return hashing.hash.hexdigest()

    def sample(self, most: int, n_places: int) -> InMemoryTable:
        """Return about `most` rows, as `n_places` evenly spaced slices."""
        import pyarrow as pa

        table = self.table
        if table.num_rows <= most:
            return self
        starts = [table.num_rows * i // n_places for i in range(n_places)]
        return InMemoryTable(self.label, pa.concat_tables([table.slice(s, max(1, most // n_places)) for s in starts]))

    def __repr__(self) -> str:
        return f"InMemoryTable({self.label!r})"


def count(n: int, noun: str) -> str:
    """Return a number with its noun: ``"7,043 rows"``."""
    return count_noun(n, noun)


def type_name(value: Any) -> str:
    """Return the type of a value as users import it: ``pandas.DataFrame``, ``polars.LazyFrame``, ``int``."""
    package = type(value).__module__.partition(".")[0].removeprefix("_")
    return type(value).__name__ if package == "builtins" else f"{package}.{type(value).__name__}"
