"""Outputs of a batch scoring: checked before any work, written complete or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from gpupipe.errors import ConfigError
from gpupipe.io.output_conflicts import ProtectedInput
from gpupipe.pipeline.atomic.file import replace_file, require_writable_file
from gpupipe.pipeline.run_inputs import model_inputs

ENDINGS = (".csv", ".parquet")
FORMULA = r"^[=+\-@\t\r\n]"  # https://owasp.org/www-community/attacks/CSV_Injection
NUMBER = r"^[+\-]?[0-9]+([.,][0-9]*)?([eE][+\-]?[0-9]+)?$"


def require_output_file(output: Path) -> None:
    """Raise ConfigError unless scores can be written to `output`: before hours of work, not after them."""
    if output.suffix not in ENDINGS and not output.is_dir():
        raise ConfigError(
            f"cannot write {output.suffix or 'a file without a suffix'}: scores are .csv or .parquet",
            where=str(output),
            fix=f"name it {output.name}.csv or {output.name}.parquet" if not output.suffix else "use one of the two",
        )
    require_writable_file(output)


def scoring_inputs(model: str | Path, data: str | None, tables: Mapping[str, str] | None) -> list[ProtectedInput]:
    """Return what a batch scoring reads: its outputs must leave it alone."""
    found = model_inputs(model)
    if data is not None:
        found.append(ProtectedInput(data, "the input"))
    return found + [ProtectedInput(path, f"the table {name!r}") for name, path in (tables or {}).items()]


def rejected_path(output: Path) -> Path:
    """Return the file of the rejected rows: ``scores.rejected.csv`` for ``scores.csv``."""
    return output.with_name(f"{output.stem}.rejected{output.suffix}")


def write_table(table: pa.Table, output: Path, safe_csv: bool = False) -> None:
    """Write a table to a .csv or .parquet file, as a whole; `safe_csv` as in `escape_formulas`, for .csv.

    Raises
    ------
    LimitError
        If the disk is full.
    """
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    if safe_csv and output.suffix == ".csv":
        table = escape_formulas(table)
    with replace_file(output) as draft, draft.open("wb") as file:  # Arrow opens UTF-8 names only
        (pa_csv.write_csv if output.suffix == ".csv" else pq.write_table)(table, file)


def escape_formulas(table: pa.Table) -> pa.Table:
    """Return a table whose texts and column names no spreadsheet takes for a formula.

    Those that begin with ``= + - @``, a tab or a line break get an apostrophe before them, unless they are numbers.
    Programs that read the file see the apostrophe.

    Examples
    --------
    >>> escape_formulas(pa.table({"=a": ["=1+1", "-5", "-5+x", None], "b": [-1, 2, 3, 4]})).to_pydict()
    {"'=a": ["'=1+1", '-5', "'-5+x", None], 'b': [-1, 2, 3, 4]}
    """
    columns = []
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        columns.append(_escaped(column.cast(kind)) if is_text else column)
    names = _escaped(pa.chunked_array([table.column_names], pa.string())).to_pylist()
    return pa.table(columns, names=names)


def _escaped(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    is_formula = pc.and_not(pc.match_substring_regex(texts, FORMULA), pc.match_substring_regex(texts, NUMBER))
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)
