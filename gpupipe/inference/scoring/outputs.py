"""Output files of batch scoring: checked before any work, and written atomically."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import ConfigError, SchemaError
from gpupipe.files.file import replace_file, require_writable_file
from gpupipe.io.arrow_types import is_bytes, plain_column
from gpupipe.io.output_conflicts import ProtectedInput
from gpupipe.model_parts.folder import model_inputs

ENDINGS = (".csv", ".parquet")
FORMULA = r"^[=+\-@\t\r\n]"  # https://owasp.org/www-community/attacks/CSV_Injection
NUMBER = r"^[+\-]?[0-9]+([.,][0-9]*)?([eE][+\-]?[0-9]+)?$"


def require_output_file(output: Path) -> None:
    """Raise ConfigError unless scores can be written to `output`; called before any work."""
    if output.suffix not in ENDINGS and not output.is_dir():
        raise ConfigError(
            f"expected a .csv or .parquet file; got {repr(output.suffix) if output.suffix else 'no suffix'}",
            where=str(output),
            fix=f"name it {output.stem}.csv or {output.stem}.parquet",
        )
    require_writable_file(output)


def scoring_inputs(model: str | Path, data: str | None, tables: Mapping[str, str] | None) -> list[ProtectedInput]:
    """Return the inputs of a batch scoring, which its outputs must not overwrite."""
    found = model_inputs(model)
    if data is not None:
        found.append(ProtectedInput(data, "the input"))
    return found + [ProtectedInput(path, f"the table {name!r}") for name, path in (tables or {}).items()]


def rejected_path(output: Path) -> Path:
    """Return the path of the rejected rows: ``scores.rejected.csv`` for ``scores.csv``."""
    return output.with_name(f"{output.stem}.rejected{output.suffix}")


def write_table(table: pa.Table, output: Path, safe_csv: bool = False) -> None:
    """Write a table to a .csv or .parquet file atomically; `safe_csv` applies `escape_formulas` to .csv files.

    Raise LimitError if the disk is full.
    """
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    if output.suffix == ".csv":
        table = _with_texts(table)
        table = escape_formulas(table) if safe_csv else table
    with replace_file(output) as file:  # Arrow itself opens UTF-8 paths only
        (pa_csv.write_csv if output.suffix == ".csv" else pq.write_table)(table, file)


def _with_texts(table: pa.Table) -> pa.Table:
    """Return the table with UUIDs and binary values as text, as the reader of tables writes them."""
    for position, column in enumerate(table.columns):
        if isinstance(column.type, pa.UuidType) or is_bytes(column.type):
            text = plain_column(column, is_named=True)[0].cast(pa.string())
            table = table.set_column(position, table.column_names[position], text)
    return table


def escape_formulas(table: pa.Table) -> pa.Table:
    """Return the table with texts and column names escaped that a spreadsheet would evaluate as formulas.

    Texts that start with ``= + - @``, a tab or a line break are prefixed with an apostrophe, unless they are numbers.
    The apostrophe is part of the file, and other programs read it.

    Examples
    --------
    >>> escape_formulas(pa.table({"=a": ["=1+1", "-5", "-5+x", None], "b": [-1, 2, 3, 4]})).to_pydict()
    {"'=a": ["'=1+1", '-5', "'-5+x", None], 'b': [-1, 2, 3, 4]}
    """
    columns = []
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        columns.append(_escape(column.cast(kind)) if is_text else column)
    names = _escape(pa.chunked_array([table.column_names], pa.string())).to_pylist()
    return pa.table(columns, names=names)


def _escape(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    is_formula = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER))
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)


class TableWriter:
    """Writer of a CSV or Parquet file in parts; the file replaces an existing one once it is complete.

    For `safe_csv`, see `escape_formulas`.
    """

    def __init__(self, output: Path, safe_csv: bool) -> None:
        self._output = output
        self._is_csv = output.suffix == ".csv"
        self._safe_csv = safe_csv
        self._stack = ExitStack()
        self._file: IO[bytes]
        self._writer: Any = None

    def __enter__(self) -> TableWriter:
        self._file = self._stack.enter_context(replace_file(self._output))  # Arrow itself opens UTF-8 paths only
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def write(self, table: pa.Table) -> None:
        """Append rows; the first ones decide the columns and their types.

        Raise SchemaError if a column has values that its type in the first rows cannot represent.
        """
        import pyarrow.csv as pa_csv
        import pyarrow.parquet as pq

        if self._is_csv and self._safe_csv:
            table = escape_formulas(table)
        if self._writer is None:
            kind = pa_csv.CSVWriter if self._is_csv else pq.ParquetWriter
            self._writer, self._schema = self._stack.enter_context(kind(self._file, table.schema)), table.schema
        try:
            table = table.cast(self._schema)
        except pa.ArrowException as error:
            changed = zip(table.schema, self._schema, strict=True)
            name, now, first = next((own.name, own.type, was.type) for own, was in changed if own.type != was.type)
            raise SchemaError(
                f"cannot copy the column {name!r}: its values are {first} in the first rows, and {now} in later ones",
                fix="do not keep the column, or convert the file to Parquet",
            ) from error
        self._writer.write_table(table)
