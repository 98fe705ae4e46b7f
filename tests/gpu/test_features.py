"""Fits and matrices on the device, compared with the host: equal programs, codes and folds, close numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.device.parity import DEVICES, FeatureMatrices, column_errors, fit_matrices, job_of
from gpupipe.backends import choose
from gpupipe.config import Config, parse_config
from gpupipe.features import OPS
from gpupipe.features.statistics.device import DeviceReducer
from gpupipe.training.fit import fit_view
from gpupipe.training.preparation.preparation import folds_of
from gpupipe_kernels.program.program import Program
from gpupipe_kernels.reduce.cuda import engine as cuda_engine
from tests.backends import double
from tests.features import histories

TOLERANCE = 2e-5  # tolerance of a cell, relative to 1 + its value
SUMS = 1e-5  # tolerance of statistics of values that float32 rounds differently, above all logarithms
ROWS = 5_000
DERIVED = set(histories.OPS_BY_NAME)
TEXTS = {"text_hash", "text_counts", "text_vectors", "parse_number"}
OTHERS = {"kernel", "generate"}

OPS_BY_NAME: dict[str, list[dict[str, Any]]] = {
    "auto": [{"auto": {"columns": "@all"}}],
    "impute": [{"impute": {"columns": ["age", "plan"], "strategy": "most_frequent", "indicator": True}}],
    "standardize": [{"standardize": {"columns": ["age", "score"]}}],
    "min_max": [{"min_max": {"columns": ["lat"]}}],
    "robust_scale": [{"robust_scale": {"columns": ["income"]}}],
    "log1p": [{"log1p": {"columns": ["income"]}}],
    "null_if": [{"null_if": {"columns": ["age"], "values": [-999, 40]}}],
    "yeo_johnson": [{"yeo_johnson": {"columns": ["age"]}}],
    "clip": [{"clip": {"columns": ["income"], "quantiles": [0.02, 0.9]}}],
    "bucketize": [
        {"bucketize": {"columns": ["age"], "bins": 5}},
        {"bucketize": {"columns": ["lat"], "bins": 4, "strategy": "kmeans"}},
    ],
    "encode": [{"encode": {"columns": ["plan", "city"]}}],
    "one_hot": [{"one_hot": {"columns": ["plan"]}}],
    "categorify": [
        {"categorify": {"columns": ["active"]}},
        {"categorify": {"columns": ["city", "plan"], "vocabulary": "shared", "max_categories": 9, "buckets": 4}},
    ],
    "frequency_encode": [{"frequency_encode": {"columns": ["city"]}}],
    "target_encode": [
        {"target_encode": {"columns": ["city"], "folds": 4, "smoothing": "auto"}},
        {"target_encode": {"columns": ["plan"], "folds": 4, "of": "age"}},
    ],
    "hash_bucket": [{"hash_bucket": {"columns": "city", "buckets": 5}}],
    "cross": [
        {"cross": {"columns": ["city", "plan"], "as": "city_plan", "buckets": 64}},
        {"target_encode": {"columns": ["city_plan"], "folds": 3}},
    ],
    "group_stats": [
        {"group_stats": {"columns": ["age"], "by": ["city", "plan"], "stats": ["mean", "std", "max", "z_score"]}}
    ],
    "datetime_parts": [{"datetime_parts": {"columns": ["since"]}}],
    "cyclic": [{"cyclic": {"columns": ["since"], "parts": ["hour", "weekday", "day_of_year"]}}],
    "haversine": [{"haversine": {"from": ["lat", "lon"], "to": ["lon", "lat"], "as": "far"}}],
    "bearing": [{"bearing": {"from": ["lat", "lon"], "to": ["lon", "lat"], "as": "where"}}],
    "arithmetic": [{"arithmetic": {"ratio": ["age", "lat"], "as": "age_per_lat"}}],
    "polynomial": [{"polynomial": {"columns": ["lat", "lon"], "degree": 2}}],
    "expression": [{"expression": {"x": "where(lat > lon, log(max(age, 1)), -abs(lon) / 2)", "n": "isnull(age)"}}],
    "drop": [{"drop": ["income", "score"]}],
    "multi_hot": [{"multi_hot": {"columns": ["tags"]}}],
    "list_stats": [{"list_stats": {"columns": ["tags", "vector"]}}],
    "list_hash": [{"list_hash": {"columns": ["tags"], "buckets": 4}}],
    "list_columns": [{"list_columns": {"columns": ["vector"]}}],
    "bag_ids": [{"bag_ids": {"columns": ["tags"]}}],
    "last_events": [
        {"last_events": {"key": "city", "time": "since", "columns": ["plan", "age"], "size": 3}},
        {"list_stats": {"columns": ["plan_last_3", "age_last_3"]}},
    ],
}


def assert_same(host: FeatureMatrices, device: FeatureMatrices) -> None:
    assert device.features.schema == host.features.schema
    assert device.features.features == host.features.features
    assert_same_program(host.features.program, device.features.program)
    if host.features.training_program is not None:
        assert device.features.training_program is not None
        assert_same_program(host.features.training_program, device.features.training_program)
    assert (host.features.folds is None) == (device.features.folds is None)
    errors = column_errors(host, device)
    assert {name: error for name, error in errors.items() if error > TOLERANCE} == {}


def assert_same_program(host: Program, device: Program) -> None:
    np.testing.assert_array_equal(device.instructions, host.instructions)
    np.testing.assert_allclose(device.params, host.params, rtol=SUMS, atol=1e-12)
    np.testing.assert_allclose(device.luts, host.luts, rtol=SUMS, atol=1e-7)


def assert_both_fit_alike(config: Config, view: Any) -> None:
    assert_same(*(fit_matrices(job_of(config, device), view) for device in DEVICES))


@pytest.mark.data
@pytest.mark.parametrize("view", ["codes", "dense"])
@pytest.mark.parametrize("name", ["telco", "adult", "diamonds"])
def test_a_configuration_for_a_public_table(config: Any, name: str, view: str) -> None:
    assert_both_fit_alike(config(name, "source.cache=false"), view)


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_a_configuration_for_generated_customers(churn: Config, view: str) -> None:
    assert_both_fit_alike(churn, view)


def test_every_op_is_tested_here_or_elsewhere() -> None:
    assert set(OPS_BY_NAME) == set(OPS.names()) - DERIVED - TEXTS - OTHERS


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """TrainingRows with every kind of column, and nulls, infinities and zeros of both signs in them."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS).astype(float),
            "income": rng.lognormal(10, 1, ROWS),
            "score": rng.normal(1e6, 1, ROWS),
            "lat": rng.uniform(-90, 90, ROWS),
            "lon": rng.uniform(-80, 80, ROWS),
            "plan": rng.choice(["basic", "plus", "pro"], ROWS, p=[0.6, 0.3, 0.1]),
            "city": rng.choice([f"city {i:02d}" for i in range(40)], ROWS),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900 * 24, ROWS), unit="h"),
            "active": rng.random(ROWS) < 0.5,
            "tags": [rng.choice(["a", "b", "c"], n).tolist() for n in rng.integers(0, 4, ROWS)],
            "vector": rng.normal(size=(ROWS, 3)).tolist(),
            "left": rng.choice(["no", "yes"], ROWS),
        }
    )
    for name in ("age", "score", "plan", "since"):
        frame.loc[rng.random(ROWS) < 0.1, name] = None
    frame.loc[:3, "income"] = [0.0, -0.0, 1e30, 1e-30]
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    frame.to_parquet(path, index=False)
    return parse_config({"source": {"path": str(path), "target": "left", "positive": "yes", "cache": False}})


@pytest.mark.parametrize("view", ["codes", "dense"])
@pytest.mark.parametrize("op", OPS_BY_NAME)
def test_an_op(people: Config, op: str, view: str) -> None:
    ops = [OPS.get(name).model_validate(settings) for each in OPS_BY_NAME[op] for name, settings in each.items()]
    assert_both_fit_alike(people.model_copy(update={"features": tuple(ops)}), view)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_of_nulls_with_the_sign_bit_match_numpy(dtype: str) -> None:
    """As x86 makes of 0 / 0; the double of CuPy, which other tests rely on, sorts them as CuPy does."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=ROWS).astype(dtype)
    x[::5], x[1::7], x[2::11] = np.copysign(np.nan, -1), np.nan, -0.0
    backend, shares = choose("gpu"), [0.0, 0.1, 0.5, 0.9, 1.0]
    engine: Any = cuda_engine  # its functions take arrays of a device
    there = backend.to_device(x)
    ((moments, found),) = DeviceReducer(backend, engine).quantiles([there], shares)
    assert moments.n_null == np.isnan(x).sum()
    np.testing.assert_allclose(found, np.nanquantile(x.astype(float), shares), rtol=1e-12)
    order = backend.to_host(backend.xp.argsort(there, kind="stable"))
    np.testing.assert_array_equal(order, double.radix_order(x))
    np.testing.assert_array_equal(backend.to_host(backend.xp.sort(there)), x[order])


def test_two_fits_are_the_same_bytes(churn: Config) -> None:
    once, again = (fit_matrices(job_of(churn, "gpu"), "dense") for _ in range(2))
    assert once.training.tobytes() == again.training.tobytes()
    assert once.served.tobytes() == again.served.tobytes()


def test_the_matrix_is_a_tensor_without_a_copy(churn: Config) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    job = job_of(churn, "gpu")
    rows = job.rows(folds_of(job)[0].train)
    matrix: Any
    features, matrix = fit_view(rows, "dense", churn.features, job.backend)
    tensor = torch.from_dlpack(matrix)
    assert tensor.device.type == "cuda"
    assert tuple(tensor.shape) == (rows.n_rows, len(features.names))
    assert tensor.data_ptr() == matrix.data.ptr
    assert tensor[7].tolist() == job.backend.to_host(matrix[7]).tolist()
