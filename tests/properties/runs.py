"""Whole runs on a drawn table, through files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gpupipe.config import Config, load_config
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from tests.properties.tables import Drawn

Array = Any

TABLE = Drawn(3, 400, (
    "normal", "count", "far", "infinite", "all_null", "constant", "plan", "city", "odd", "flag", "hours", "ends",
    "note",
))  # fmt: skip
FEATURES = """\
  - impute: {columns: [normal, count], indicator: true}
  - yeo_johnson: far
  - target_encode: {columns: city, folds: 3}
  - text_counts: note
"""


def table_with_target(target: str = "classes") -> pa.Table:
    """Return the table, with a target ``y`` that depends on it and on chance."""
    arrow = TABLE.arrow
    signal = np.nan_to_num(arrow["normal"].to_numpy()) + TABLE.y
    return arrow.append_column("y", pa.array(signal > 0.5 if target == "classes" else signal))


def configured(folder: Path, table: pa.Table, models: str, split: str = "", overrides: Sequence[str] = ()) -> Config:
    """Return the configuration of a run over `table`, which is written to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "table.parquet")
    path = folder / "config.yaml"
    path.write_text(
        "name: drawn\nseed: 3\nsource: {path: table.parquet, target: y, schema: {note: text}}\n"
        f"split: {split or '{test_size: 0.25, stratify: false}'}\n"
        f"features:\n{FEATURES}models: [{models}]\nreport: {{enabled: false}}\n"
    )
    return load_config(path, overrides)


def run(folder: Path, table: pa.Table, models: str, overrides: Sequence[str] = ()) -> Run:
    """Return a finished run."""
    return run_pipeline(configured(folder, table, models, overrides=overrides), folder / "run")
