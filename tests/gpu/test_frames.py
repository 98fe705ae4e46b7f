"""In-memory frames on a device: cuDF's and pandas' give the same features as a file with their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import gpupipe as gp
from gpupipe.datasets.churn import customers

pytestmark = pytest.mark.rapids("cudf", "rmm")
ROWS = 20_000


@pytest.mark.parametrize("library", ["cudf", "pandas"])
def test_a_frame_gives_the_same_as_its_file_without_fallback(library: str, tmp_path: Path) -> None:
    import cudf

    table = customers(ROWS, 7)
    pq.write_table(table, tmp_path / "churn.parquet")
    frame: Any = cudf.DataFrame.from_arrow(table) if library == "cudf" else table.to_pandas()
    settings: dict[str, Any] = {
        "target": "Churn", "positive": "Yes", "drop": ["customerID"], "device": "gpu",
        "features": [{"impute": "@numeric"}, {"standardize": "@numeric"}, {"encode": "@categorical"}],
    }  # fmt: skip
    pipe = gp.Pipeline(frame, **settings)
    assert pipe.config.source.label == f"{library}.DataFrame, 20,000 rows x {table.num_columns} columns"
    X: Any
    expected: Any
    (X, y), (expected, truth) = pipe.features(), gp.Pipeline(tmp_path / "churn.parquet", **settings).features()
    np.testing.assert_allclose(X.get(), expected.get(), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(y, truth)
