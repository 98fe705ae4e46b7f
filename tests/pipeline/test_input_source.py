"""Tests of the sources of tables to score: text columns of CSV files stay text, whatever the values of a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import load_config
from gpupipe.pipeline.model.model import Model, load_model
from gpupipe.pipeline.run import run_pipeline

N = 240
CONFIG = """\
source: {path: t.csv, target: y, schema: {zip: categorical}}
tables: {orders: {path: orders.csv, on: customer, cardinality: one_to_many}}
features:
  - aggregate: {table: orders, columns: {spend: [mean, count]}}
  - text_hash: {columns: note, buckets: 8}
  - encode: "@categorical"
models: [logistic_regression]
report: {enabled: false}
"""


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rows whose texts look like numbers, booleans or dates in some batches only, and events."""
    row = np.arange(N)
    frame = pd.DataFrame({
        "zip": np.array(["00501", "01234", "10001", "A0210"])[row % 4],
        "seen": np.array(["2024-01-01", "2024-02-01", "never"])[row % 3],
        "flag": np.array(["True", "False", "maybe"])[row // 3 % 3],
        "note": [f"{i:04d}" if i % 5 else "call back" for i in row],
        "customer": [f"{i:04d}" if i % 7 else f"C{i}" for i in row],
        "y": np.where((row % 4 < 2) ^ (row % 11 == 0), "yes", "no"),
    })  # fmt: skip
    orders = pd.DataFrame({"customer": frame["customer"].repeat(2), "spend": np.arange(2.0 * N)})
    return frame, orders


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("texts")
    for name, table in zip(("t.csv", "orders.csv"), tables(), strict=True):
        table.to_csv(folder / name, index=False)
    (folder / "c.yaml").write_text(CONFIG)
    return load_model(run_pipeline(load_config(folder / "c.yaml"), folder / "run").path)


@pytest.mark.parametrize("rows", [slice(1, 2), slice(8, 9), slice(0, None)])
def test_the_score_of_a_row_does_not_depend_on_the_batch(model: Model, tmp_path: Path, rows: slice) -> None:
    frame, orders = tables()
    batch = frame.iloc[rows].drop(columns="y")
    own = orders[orders["customer"].isin(batch["customer"])]
    batch.to_csv(tmp_path / "new.csv", index=False)
    own.to_csv(tmp_path / "orders.csv", index=False)
    from_csv = model.predict_proba(tmp_path / "new.csv", {"orders": tmp_path / "orders.csv"})
    np.testing.assert_array_equal(
        from_csv, model.predict_proba(batch, {"orders": own})
    )  # in memory, texts are texts already


def test_keys_of_digits_only_match_an_event_table_that_also_has_keys_with_letters(model: Model, tmp_path: Path) -> None:
    frame, orders = tables()
    batch = frame.iloc[1:4].drop(columns="y")
    batch.to_csv(tmp_path / "new.csv", index=False)
    orders.to_csv(tmp_path / "orders.csv", index=False)
    from_csv = model.predict_proba(tmp_path / "new.csv", {"orders": tmp_path / "orders.csv"})
    np.testing.assert_array_equal(from_csv, model.predict_proba(batch, {"orders": orders}))
