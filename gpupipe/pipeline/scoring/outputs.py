"""Outputs of a batch scoring: checked before any work, written complete or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from gpupipe.errors import ConfigError
from gpupipe.pipeline.atomic import replaced, require_writable_file
from gpupipe.pipeline.run_inputs import model_inputs
from gpupipe.readers.output_conflicts import ProtectedInput

ENDINGS = (".csv", ".parquet")


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


def write_table(table: pa.Table, output: Path) -> None:
    """Write a table to a .csv or .parquet file, as a whole.

    Raises
    ------
    LimitError
        If the disk is full.
    """
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    with replaced(output) as draft:
        (pa_csv.write_csv if output.suffix == ".csv" else pq.write_table)(table, draft)
