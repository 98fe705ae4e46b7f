"""Columns and targets that float32 would merge, from the table to every road of the exported model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import gpupipe as gp

N = 400
SECONDS = 1.7e9 + np.arange(N) * 0.1


def rows() -> pd.DataFrame:
    """Return epoch seconds within a minute in another order, cents above 2**24, and a target with an offset."""
    rng = np.random.default_rng(8)
    t = rng.permutation(SECONDS)
    cents = 20_000_000 + rng.integers(0, 50, N)
    minutes = (t - 1.7e9) + 30.0 * (cents > 20_000_024)
    return pd.DataFrame({"t": t, "cents": cents, "y": 1.7e9 + np.round(minutes, 3)})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> gp.Run:
    pipe = gp.Pipeline(
        rows(),
        target="y",
        features=[{"bucketize": {"columns": "cents", "bins": 10, "as": "price"}}],
        models=[{"xgboost": {"n_estimators": 80, "defaults": "library"}}],
        report={"enabled": False},
        evaluate={"intervals": 0.9},
    )
    return pipe.run(tmp_path_factory.mktemp("runs") / "run", quiet=True)


def test_trees_are_as_good_as_those_of_float64(run: gp.Run) -> None:
    frame, folder = rows(), Path(run.path)
    found = pq.read_table(folder / "predictions.parquet").to_pandas()
    assert found["prediction"].dtype == np.float64
    own = HistGradientBoostingRegressor().fit(frame[["t", "cents"]], frame["y"] - 1.7e9)
    reference = own.score(frame[["t", "cents"]], frame["y"] - 1.7e9)
    assert run.metrics["r2"] > reference - 0.03


def test_the_run_says_what_would_merge(run: gp.Run) -> None:
    timeline = (Path(run.path) / "timeline.json").read_text()
    assert "column 't': its 320 distinct values become 1 in float32 (99.7% fewer)" in timeline
    assert "trained on the target minus 1,700,000,0" in timeline


def test_every_road_has_the_same_values(run: gp.Run, tmp_path: Path) -> None:
    model, frame = run.model, rows()
    expected = np.asarray(model.predict(frame))
    assert len(np.unique(expected)) > 100
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    for source in (
        tmp_path / "rows.csv",
        tmp_path / "rows.parquet",
        frame.to_dict("list"),
        frame.sample(frac=1).sort_index(),
    ):
        np.testing.assert_array_equal(np.asarray(model.predict(source)), expected)
    scorer = model.scorer()
    records: Any = frame.head(20).to_dict("records")
    one_by_one = [scorer.predict(row) for row in records]
    np.testing.assert_array_equal(one_by_one, expected[:20])
    np.testing.assert_array_equal(np.asarray(gp.load_model(run.path / "model").predict(frame)), expected)


def test_an_explanation_is_in_the_units_of_the_target(run: gp.Run) -> None:
    frame = rows().head(30)
    explained = run.model.explain(frame)
    np.testing.assert_allclose(
        explained.base + explained.values.sum(axis=1), np.asarray(run.model.predict(frame)), atol=1e-3
    )
    assert abs(explained.base - 1.7e9) < 100


def test_intervals_have_the_width_of_the_residuals(run: gp.Run) -> None:
    frame = rows()
    found = run.model.predict_interval(frame)
    width = np.asarray(found)[:, 1] - np.asarray(found)[:, 0]
    assert 0 < width.max() < 60


def test_onnx_has_the_same_values(run: gp.Run, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    path = tmp_path / "model.onnx"
    run.model.to_onnx(path)
    frame = rows()
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed = {each.name: frame[[each.name]].to_numpy(np.float64) for each in session.get_inputs()}
    found = session.run(None, feed)[0]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found.reshape(-1), np.asarray(run.model.predict(frame)), atol=1e-3, rtol=0)
