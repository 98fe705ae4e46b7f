"""Tables to measure: generated tables, a file, or the source of the configuration."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpupipe.bench.process import run_child
from gpupipe.config import Config
from gpupipe.config.environment import escape
from gpupipe.errors import ConfigError
from gpupipe.io.input_files import input_files
from gpupipe.io.origin_settings import ORIGIN_OF, ORIGINS


@dataclass(frozen=True)
class BenchTable:
    """A table to measure.

    - `label`: name in the report.
    - `overrides`: overrides, as in ``--set``, that make the configuration read the table.
    - `path`: file for the peers; None unless there is exactly one.
    """

    label: str
    overrides: tuple[str, ...] = ()
    path: Path | None = None


def inputs(config: Config, data: Path | None, sizes: Sequence[int], folder: Path) -> Iterator[BenchTable]:
    """Iterate over the tables to measure: one for each of `sizes`, or a single one.

    A generated table is written to a Parquet file in `folder`, so that reading is measured and generation is not. So is
    the result of a query, or a Delta or Iceberg table. `data` is a file to read instead of the configuration's source.
    `sizes` are numbers of rows to generate; none for that of the configuration. Raise ConfigError if `sizes` are given
    and the source is not generated, or `data` does not exist.
    """
    source = config.source
    if sizes and (source.generate != "churn" or data is not None):
        raise ConfigError(
            "--rows needs a generated table",
            where="--rows",
            fix="omit --data, and use a configuration with source: {generate: churn}",
        )
    if data is not None:
        if not data.is_file():
            raise ConfigError(f"there is no file {data}", where="--data", fix="pass one CSV or Parquet file")
        yield _file(data, data.name)
    elif source.is_external:
        copy = input_files(source)[0]  # once, so that reading is measured and the database is not
        path = shutil.move(copy.path, folder / "table.parquet")
        yield _file(Path(path), f"{source.label}, copied to Parquet")
    elif source.generate == "churn":
        for rows in sizes or [source.rows]:
            yield _generated(rows, source.seed, folder)
    else:
        paths = source.paths
        only = Path(paths[0]) if len(paths) == 1 and Path(paths[0]).is_file() else None
        yield BenchTable(source.label, path=only)


def _generated(rows: int, seed: int, folder: Path) -> BenchTable:
    path = folder / f"churn_{rows}.parquet"
    run_child(["table", str(path), "--rows", str(rows), "--seed", str(seed)], folder / "table.json")
    return _file(path, f"generated churn table, seed {seed}, as Parquet")


def _file(path: Path, label: str) -> BenchTable:
    quoted = json.dumps(escape(str(path.resolve())))
    others = [f"source.{origin}=null" for origin in (*ORIGINS, *ORIGIN_OF) if origin not in ("path", "frame")]
    return BenchTable(label, (f"source.path={quoted}", *others, "source.format=auto"), path.resolve())
