"""Checks of fits on the device double against the host, run by `test_on_device` in Numba's simulator."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from gpupipe.backends import Backend, choose
from gpupipe.config import load_config, parse_config
from gpupipe.datasets.churn import write
from gpupipe.features import OPS
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm, NumericExpr, Producer
from gpupipe.features.program.fit import fit_features
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.features.program.target import Target
from gpupipe.features.statistics import device as device_statistics
from gpupipe.features.statistics import numbers as number_statistics
from gpupipe.features.statistics import quantiles, row_weights
from gpupipe.features.statistics.device import DeviceReducer
from gpupipe.features.statistics.reductions import Reducer
from gpupipe.features.statistics.row_blocks import map_row_blocks
from gpupipe.features.statistics.training import Statistics
from gpupipe.partitions import table as partitions
from gpupipe.partitions.statistics.training import PartitionedStatistics
from gpupipe.partitions.table import PartitionedTable
from gpupipe.pipeline.api import transformer
from gpupipe.table.arrange import move_table, slice_rows
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import Column, Schema, declare
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.preparation.preparation import open_job
from gpupipe.training.preparation.read_stage import read_table
from gpupipe_kernels.reduce.cuda import engine as cuda_engine
from gpupipe_kernels.reduce.engine import CellLayout
from gpupipe_kernels.reduce.numpy import engine as numpy_engine
from tests.backends import double
from tests.backends.double import DeviceDouble
from tests.inline_workers import InlineWorkers

CONFIGS = Path(__file__).parents[2] / "configs"
N = 80
SEED = 7
ENGINE: Any = cuda_engine  # its functions take arrays of a device
# of arithmetic on infinities, where Python computes: the simulator
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@dataclass
class Fitted:
    """The features of one backend, and its matrices of the training rows and of a served table."""

    features: FittedFeatures
    training: Any
    served: Any


def fitted(
    backend: Backend, table: Table, ops: Sequence[Any], target: Target | None, view: Any, weights: Any = None
) -> Fitted:
    there = Table(
        table.schema, table.n_rows, {name: backend.to_device(block) for name, block in table.blocks.items()},
        table.places, table.texts,
    )  # fmt: skip
    statistics = Statistics(there, backend, target, SEED, weights=weights)
    features = fit_features(ops, statistics, view)
    training = features.transform_training(statistics.table, backend)
    served = features.transform(there, backend)
    assert isinstance(served, backend.xp.ndarray) and isinstance(training, backend.xp.ndarray)
    return Fitted(features, backend.to_host(training), backend.to_host(served))


def assert_both_fit_alike(
    table: Table,
    ops: Sequence[Any],
    target: Target | None,
    view: Any = "dense",
    rtol: float = 1e-9,
    weights: Any = None,
) -> None:
    """Compare the fits; sums of what float32 holds differently, logarithms of it above all, need another `rtol`."""
    device = DeviceDouble()
    double.uncounted.clear()
    device.open_stage()
    host, there = (fitted(backend, table, ops, target, view, weights) for backend in (choose("cpu"), device))
    use = device.close_stage()
    assert double.uncounted == []
    assert use.bytes_to_device >= table.n_bytes and use.fallbacks == ()
    is_exact = weights is None and (target is None or target.n_classes > 0)
    assert_equal(there.features, host.features, is_exact, rtol)
    for got, expected in ((there.training, host.training), (there.served, host.served)):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


def assert_equal(got: FittedFeatures, expected: FittedFeatures, exact: bool, rtol: float) -> None:
    """Counts, levels, quantiles and the means of classes are the same; sums of floats within `rtol`."""
    assert got.schema == expected.schema
    assert (got.features, got.notes) == (expected.features, expected.notes)
    for one, other in ((got.program, expected.program), (got.training_program, expected.training_program)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_array_equal(one.instructions, other.instructions)
            np.testing.assert_allclose(one.params, other.params, rtol=rtol, atol=1e-12)
            np.testing.assert_allclose(one.luts, other.luts, rtol=0 if exact else 2e-7)
    assert (got.folds is None) == (expected.folds is None)
    if got.folds is not None:
        np.testing.assert_array_equal(DeviceDouble().to_host(got.folds), expected.folds)


def validated(ops: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [OPS.get(name).model_validate(settings) for op in ops for name, settings in op.items()]


def people(n: int = N) -> Table:
    """Return rows with every kind of column and nulls in most of them, on the host."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, N).astype(float),
            "income": rng.lognormal(10, 1, N),
            "score": rng.normal(1e6, 1, N),
            "lat": rng.uniform(-90, 90, N),
            "lon": rng.uniform(-180, 180, N),
            "plan": rng.choice(["basic", "plus", "pro"], N, p=[0.6, 0.3, 0.1]),
            "city": rng.choice([f"city {i:02d}" for i in range(40)], N),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900 * 24, N), unit="h"),
            "until": pd.Timestamp("1961-01-01") + pd.to_timedelta(rng.integers(0, 30_000, N), unit="D"),
            "active": pd.array(rng.random(N) < 0.5, dtype="boolean"),
            "empty": np.full(N, np.nan),
        }
    )
    for name in ("age", "score", "plan", "since", "active"):
        frame.loc[rng.random(N) < 0.1, name] = None
    frame.loc[:2, "income"] = [np.inf, -np.inf, 0.0]
    return encode(pa.Table.from_pandas(frame[:n]), choose("cpu"), {"empty": declare("float")})


CATEGORIES: list[dict[str, Any]] = [
    {"impute": {"columns": "plan", "strategy": "most_frequent"}},
    {"bucketize": {"columns": ["age"], "bins": 5}},
    {"bucketize": {"columns": ["score"], "bins": 4, "strategy": "uniform"}},
    {"cross": {"columns": ["city", "plan"], "as": "city_plan"}},
    {"cross": {"columns": ["age", "plan"], "as": "age_plan", "buckets": 8}},
    {"one_hot": {"columns": ["plan", "age"]}},
    {"hash_bucket": {"columns": "city", "buckets": 5}},
    {"frequency_encode": {"columns": ["city_plan"]}},
    {"categorify": {"columns": ["active"]}},
]
ENCODED: list[dict[str, Any]] = [
    *CATEGORIES[:5],
    {"target_encode": {"columns": ["score", "city", "age_plan", "city_plan"], "folds": 4}},
]
NUMBERS = [
    {"haversine": {"from": ["lat", "lon"], "to": ["lat", "lon"], "as": "far"}},
    {"impute": {"columns": ["age"], "strategy": "median", "indicator": True}},
    {"impute": {"columns": ["score"], "strategy": "most_frequent"}},
    {"clip": {"columns": ["income"], "quantiles": [0.02, 0.9]}},
    {"yeo_johnson": {"columns": ["age"]}},
    {"log1p": {"columns": ["income"]}},
    {"robust_scale": {"columns": ["income"]}},
    {"standardize": {"columns": ["score"]}},
    {"min_max": {"columns": ["lat"]}},
    {"polynomial": {"columns": ["lat", "lon"], "degree": 2}},
    {
        "expression": {
            "north": "where(lat > 10, log(max(lat, age)), -abs(lon) / 2)",
            "odd": "isnull(age) or lon ** 2 < 9",
        }
    },
]
TIMES = [
    {"datetime_parts": {"columns": ["since"]}},
    {"cyclic": {"columns": ["since", "until"], "parts": ["hour", "weekday", "day_of_year"]}},
]
TARGETS = {
    "two classes": lambda rng: Target(rng.integers(0, 2, N).astype(float), 2),
    "three classes": lambda rng: Target(rng.integers(0, 3, N).astype(float), 3),
    "a negative number": lambda rng: Target(-rng.lognormal(0, 12, N), 0),
    "a number": lambda rng: Target(rng.normal(0, 1, N) * rng.lognormal(0, 3, N), 0),
}


def test_categories() -> None:
    assert_both_fit_alike(people(), validated(CATEGORIES), None)


@pytest.mark.parametrize("kind", TARGETS)
def test_targets(kind: str) -> None:
    ops = validated([*ENCODED, {"drop": ["income", "l*", "since", "until", "active", "empty"]}])
    assert_both_fit_alike(people(), ops, TARGETS[kind](np.random.default_rng(0)))


@pytest.mark.parametrize("kind", TARGETS)
def test_weighted_targets(kind: str) -> None:
    rng = np.random.default_rng(0)
    ops = validated([*ENCODED, {"drop": ["income", "l*", "since", "until", "active", "empty"]}])
    assert_both_fit_alike(people(), ops, TARGETS[kind](rng), weights=rng.lognormal(0, 2, N))


@pytest.mark.parametrize("ops", [CATEGORIES, NUMBERS, []], ids=["categories", "numbers", "auto"])
def test_weights_without_a_target(ops: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_weights, "DEVICE_ROWS", N // 3 + 1)
    weights = np.random.default_rng(0).lognormal(0, 2, N)
    assert_both_fit_alike(people(), validated(ops), None, rtol=1e-5, weights=weights)


@pytest.mark.parametrize(
    ("ops", "rtol"), [(NUMBERS, 1e-5), (TIMES, 1e-9), ([], 1e-5)], ids=["numbers", "times", "auto"]
)
def test_without_a_target(ops: list[Any], rtol: float) -> None:
    assert_both_fit_alike(people(), validated(ops), None, rtol=rtol)


def test_computed_columns_are_summed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_statistics, "MAX_PROGRAM_ROWS", N // 3 + 1)
    assert_moments_alike(NumericExpr("age", ("age",), Producer("LOAD", "age")).then("LOG1P"))


def test_exponents_of_many_rows_use_the_sample_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_statistics, "SAMPLE_ROWS", N // 3)
    host, there = both(people())
    column = NumericExpr("income", ("income",), Producer("LOAD", "income"))
    assert there.exponents([column]) == host.exponents([column])


def assert_moments_alike(column: NumericExpr) -> None:
    host, there = both(people())
    assert there.null_counts([column]) == host.null_counts([column])
    for got, exact in zip(there.moments([column])[0], host.moments([column])[0], strict=True):
        assert got == pytest.approx(exact, rel=1e-6)


def both(table: Table, weights: Any = None) -> tuple[Statistics, Statistics]:
    """Return the statistics of a table without a target, of the host and of the double."""
    device = DeviceDouble()
    there = Table(table.schema, N, {k: device.to_device(v) for k, v in table.blocks.items()}, table.places)
    host = Statistics(table, choose("cpu"), None, 0, weights=weights)
    return host, Statistics(there, device, None, 0, weights=weights)


def test_the_view_of_codes() -> None:
    assert_both_fit_alike(people(), validated(CATEGORIES[:3]), None, "codes")


def test_one_row() -> None:
    assert_both_fit_alike(people(1), validated(TIMES), None)


def test_a_configuration_for_churn(tmp_path: Path) -> None:
    write(tmp_path / "churn.parquet", rows=12_000)
    config = load_config(CONFIGS / "bench_churn.yaml", environment={"CHURN_FILE": str(tmp_path / "churn.parquet")})
    assert_config_fits_alike(config, rtol=1e-5)


@pytest.mark.data
@pytest.mark.parametrize("name", ["telco", "adult", "diamonds"])
def test_a_configuration_for_a_public_table(name: str) -> None:
    assert_config_fits_alike(load_config(CONFIGS / f"{name}.yaml", environment=dict(os.environ)))


def assert_config_fits_alike(config: Any, rtol: float = 1e-9) -> None:
    job = open_job(config, choose("cpu"), Timeline())
    first = np.arange(job.table.n_rows) < N
    statistics = job.rows(first).statistics
    assert statistics is not None and statistics.n_rows == N
    assert_both_fit_alike(statistics.table, config.features, statistics.target, rtol=rtol)


def columns() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    skewed = np.where(rng.random(N) < 0.1, np.nan, rng.lognormal(3, 1, N))
    wild = np.where(rng.random(N) < 0.1, 1e300, rng.normal(1e6, 1, N))
    wild[:5] = np.inf, -np.inf, np.nan, 0.0, -0.0
    zeros = np.where(np.arange(N) % 2, -0.0, 0.0)
    signed = np.where(np.isnan(skewed), -np.nan, skewed)
    return [skewed, signed, wild, rng.integers(0, 9, N).astype(np.float32), np.full(N, np.nan), np.full(N, 0.1), zeros]


def test_quantiles_and_extremes_equal_those_of_the_host_and_moments_nearly() -> None:
    device, shares = DeviceDouble(), [0.0, 0.25, 0.5, 0.731, 1.0]
    there = [device.to_device(x) for x in columns()]
    reducer, host = DeviceReducer(device, ENGINE), Reducer(choose("cpu"), numpy_engine)
    found, expected = reducer.quantiles(there, shares), host.quantiles(columns(), shares)
    assert [str(values) for _, values in found] == [str(values) for _, values in expected]
    assert str(reducer.extremes(there)) == str(host.extremes(columns()))
    for (got, _), (exact, _) in zip(found, expected, strict=True):
        assert (got.n, got.n_null) == (exact.n, exact.n_null)
        assert got.mean == pytest.approx(exact.mean, rel=1e-12)
        assert got.deviation == pytest.approx(exact.deviation, rel=1e-9, abs=1e-12)
    assert str(reducer.quantiles(there, shares)) == str(found)  # the same at every call


ORDERED: list[dict[str, Any]] = [
    {"impute": {"columns": ["imputed"], "strategy": "median"}},
    {"robust_scale": {"columns": ["scaled"]}},
    {"clip": {"columns": ["clipped"], "quantiles": [0.1, 0.8]}},
    {"bucketize": {"columns": ["binned"], "bins": 4}},
]


@pytest.mark.parametrize("road", ["cache", "arrow"])
def test_quantiles_of_nulls_with_the_sign_bit_match_numpy(road: str, tmp_path: Path) -> None:
    """0 / 0 on x86 is such a NaN, which CuPy sorts to the front; the host reads the table, and its blocks are moved."""
    x = np.random.default_rng(3).lognormal(3, 1, N)
    x[::7] = np.copysign(np.nan, -1.0)
    table = pa.table({name: x for op in ORDERED for (settings,) in [op.values()] for name in settings["columns"]})
    if road == "cache":
        pq.write_table(table, tmp_path / "t.parquet")
        source = {"path": str(tmp_path / "t.parquet"), "cache": str(tmp_path / "cache")}
    else:
        feather.write_feather(table, str(tmp_path / "t.arrow"))
        source = {"path": str(tmp_path / "t.arrow")}
    config = parse_config({"name": "t", "source": source, "models": ["pca"]})
    read_table(config, choose("cpu"))  # which leaves the cache
    device = DeviceDouble()
    there = read_table(config, device).table
    moved = device.to_host(there.column("imputed"))
    assert isinstance(there, Table) and np.signbit(moved[np.isnan(moved)]).all()

    features = fit_features(validated(ORDERED), Statistics(there, device, None, SEED), "codes")
    matrix = device.to_host(features.transform(there, device))
    found = {feature.name: matrix[:, j] for j, feature in enumerate(features.features)}
    known = ~np.isnan(x)
    median, low, high = np.nanquantile(x, [0.5, 0.25, 0.75])
    np.testing.assert_allclose(found["imputed"][~known], median, rtol=1e-6)
    np.testing.assert_allclose(found["scaled"][known], ((x - median) / (high - low))[known], rtol=1e-4, atol=1e-6)
    clipped = np.clip(x, *np.nanquantile(x, [0.1, 0.8]))
    np.testing.assert_allclose(found["clipped"][known], clipped[known], rtol=1e-6)
    bins = np.digitize(x[known], [low, median, high])
    codes = found["binned"][known]
    np.testing.assert_array_equal(codes - codes.min(), bins)


def test_bracket_contents_equal_those_of_the_host() -> None:
    device, there = DeviceDouble(), columns()
    given = [np.array([[0.0, 20.0], [-np.inf, 5.0], [0.0, 0.0]], x.dtype) for x in there]
    found = DeviceReducer(device, ENGINE).reduce_columns(
        [device.to_device(x) for x in there], [0.0] * len(there), given
    )
    for (got,), (exact,) in zip(
        found, Reducer(choose("cpu"), numpy_engine).reduce_columns(there, [0.0] * len(there), given), strict=True
    ):
        assert (got.n, got.n_null) == (exact.n, exact.n_null)
        assert str(got.brackets) == str(exact.brackets)


@pytest.mark.parametrize("weights", [None, np.random.default_rng(1).lognormal(0, 2, N)], ids=["", "weighted"])
def test_partitions_on_devices_match_one_host(weights: Any) -> None:
    table, device, n = people(), DeviceDouble(), N
    target = Target(np.random.default_rng(0).integers(0, 2, n).astype(float), 2)
    workers = InlineWorkers(device, 2)
    cut = [move_table(slice_rows(table, start, stop), device) for start, stop in ((0, n // 2), (n // 2, n))]
    parts = PartitionedTable(tuple(map(workers.put, cut)), workers, tuple(part.n_rows for part in cut), table.schema)
    with (
        patch.object(partitions, "ROWS_PER_BLOCK", n // 2),
        patch.object(quantiles, "FEW_VALUES", 20),
    ):  # fmt: skip
        many = PartitionedStatistics(parts, choose("cpu"), target, SEED, weights)
        assert len(many.table.partitions) == 2
        one = Statistics(table, choose("cpu"), target, SEED, weights=weights)
        asked = [NumericExpr(name, (name,), Producer("LOAD", name)) for name in ("age", "income", "empty")]
        for shares in ([0.1, 0.5], [i / 9 for i in range(10)]):
            assert many.quantiles(asked, shares) == one.quantiles(asked, shares)
        assert (many.extremes(asked), many.modes(asked)) == (one.extremes(asked), one.modes(asked))
        plan = CategoryExpr("plan", ("plan",), (IndexTerm("INDEX", "plan"),), table.schema["plan"].n_codes, ())
        (got,), (exact,) = many.target_counts([plan], 5), one.target_counts([plan], 5)
        np.testing.assert_allclose(got.count, exact.count, rtol=0 if weights is None else 1e-14)
        made = [asked[0].then("LOG1P"), asked[1]]
        for found, expected in zip(many.moments(made), one.moments(made), strict=True):
            assert found == pytest.approx(expected, rel=1e-6)
        assert many.has_time_of_day("since") == one.has_time_of_day("since")


def test_no_columns_and_no_rows() -> None:
    device = DeviceDouble()
    reducer, empty = DeviceReducer(device, ENGINE), device.to_device(np.empty(0, np.float32))
    assert reducer.moments([]) == [] and reducer.quantiles([], [0.5]) == [] and reducer.extremes([]) == []
    ((moments, values),) = reducer.quantiles([empty], [0.5])
    assert (moments.n, moments.deviation, values) == (0, 0.0, [0.0])
    assert reducer.extremes([empty]) == [(0.0, 0.0)]


def test_weighted_quantiles_and_modes_equal_those_of_the_host() -> None:
    host, found = both(people(), np.random.default_rng(0).lognormal(0, 2, N))
    numbers = [NumericExpr(name, (name,), Producer("LOAD", name)) for name in ("age", "income", "empty")]
    assert found.modes(numbers) == host.modes(numbers)
    assert found.null_counts(numbers) == host.null_counts(numbers)
    shares = [0.0, 0.25, 0.5, 0.731, 1.0]
    assert repr(found.quantiles(numbers, shares)) == repr(host.quantiles(numbers, shares))
    for got, exact in zip(found.moments(numbers), host.moments(numbers), strict=True):
        assert got == pytest.approx(exact, rel=1e-9)


def test_modes_and_histories_over_time() -> None:
    host, found = both(people())
    numbers = [NumericExpr(name, (name,), Producer("LOAD", name)) for name in ("age", "income", "empty")]
    assert found.modes(numbers) == host.modes(numbers)
    for name in ("since", "until"):
        assert found.time_range(name) == host.time_range(name)
        assert found.has_time_of_day(name) == host.has_time_of_day(name)


def test_transfers_to_the_host_do_not_grow_with_the_rows() -> None:
    n, rng, device = 5_000, np.random.default_rng(0), DeviceDouble()
    schema = Schema((
        Column("x", "numeric", "double", storage="float32"),
        Column("a", "categorical", "string", storage="int8", levels=("p", "q", "r")),
    ))  # fmt: skip
    x, a = rng.normal(size=(1, n)).astype(np.float32), rng.integers(0, 6, (1, n)).astype(np.int8)
    blocks = {"float32": device.to_device(x), "int8": device.to_device(a)}
    device.open_stage()
    target = Target(rng.normal(size=n), 0)
    statistics = Statistics(Table(schema, n, blocks, {"x": ("float32", 0), "a": ("int8", 0)}), device, target, 0)
    number = NumericExpr("x", ("x",), Producer("LOAD", "x"))
    statistics.quantiles([number, number.then("LOG1P")], [0.1, 0.9])
    statistics.moments([number.then("LOG1P").then("FILL", 0.0)])
    statistics.extremes([number])
    statistics.target_counts([CategoryExpr("a", ("a",), (IndexTerm("INDEX", "a"),), 6, ("p", "q", "r"))], 5)
    use = device.close_stage()
    assert double.uncounted == []
    assert use.bytes_to_device < target.values.nbytes + n + 1_000  # the target, and the fold of each row
    assert 1_000 < use.bytes_to_host < 5_000


def test_on_a_device_all_rows_are_one_part() -> None:
    assert map_row_blocks(DeviceDouble(), lambda _, start, stop: (start, stop), [None], 10**6, [10]) == [[(0, 10**6)]]
    assert map_row_blocks(DeviceDouble(), lambda _, start, stop: (start, stop), [None], 0) == [[(0, 0)]]


@pytest.mark.parametrize("size", [5, 3_000])
def test_sums_of_cells_match_exact_arithmetic_whatever_the_order_of_the_rows(size: int) -> None:
    n, rng, device = 1_000, np.random.default_rng(0), DeviceDouble()
    cell, y = rng.integers(0, size, n).astype(np.int16), rng.normal(size=n) * 10.0 ** rng.integers(-12, 12, n)

    def tallied(rows: Any) -> tuple[Any, Any]:
        there, totals = device.to_device(cell[rows][None]), device.xp.zeros(size)
        counts, largest = device.xp.zeros(size, np.int64), float(np.abs(y).max())
        cells = CellLayout({"int16": there}, (("int16", 0, 0),), size, device.to_device(y[rows]), largest)
        cuda_engine.tally(cells, 0, n, counts, totals)
        return device.to_host(counts), device.to_host(totals)

    counts, totals = tallied(np.arange(n))
    np.testing.assert_array_equal(counts, np.bincount(cell, minlength=size))
    exact = [math.fsum(y[cell == c]) for c in range(size)]
    np.testing.assert_allclose(totals, exact, rtol=1e-15, atol=1e-20 * np.abs(y).max())
    np.testing.assert_array_equal(tallied(rng.permutation(n))[1], totals)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 500])
def test_sums_of_a_column_match_exact_arithmetic(dtype: str, n: int) -> None:
    device, x = DeviceDouble(), np.random.default_rng(n).lognormal(3, 2, n).astype(dtype)
    x[::7], pivot = np.nan, 3.5
    ((added, null, first, second),) = DeviceReducer(device, ENGINE)._sums([device.to_device(x)], [pivot]).tolist()
    away = [value - pivot for value in x.astype(np.float64).tolist() if not math.isnan(value)]
    assert (added, null) == (len(away), n - len(away))
    assert first == pytest.approx(math.fsum(away), rel=1e-12)
    assert second == pytest.approx(math.fsum(value * value for value in away), rel=1e-12)


def test_a_strided_array_is_rejected() -> None:
    device = DeviceDouble()
    with pytest.raises(ValueError, match="contiguous"):
        cuda_engine.count(device.to_device(np.zeros(9, np.int8))[::3], device.xp.zeros(1, np.int64))


def test_a_target_that_is_not_finite_is_rejected() -> None:
    table, device = people(), DeviceDouble()
    there = Table(table.schema, N, {k: device.to_device(v) for k, v in table.blocks.items()}, table.places)
    statistics = Statistics(there, device, Target(np.full(N, np.inf), 0), 0)
    plan = CategoryExpr("plan", ("plan",), (IndexTerm("INDEX", "plan"),), table.schema["plan"].n_codes, ())
    with pytest.raises(ValueError, match="expected finite numbers"):
        statistics.target_counts([plan], 5)


@pytest.mark.filterwarnings("ignore:text column .* dropped")
@pytest.mark.parametrize("op", [{"impute": "age"}, {"text_counts": {"columns": "note", "counts": ["words"]}}])
def test_the_transformer_returns_host_arrays_unless_the_device_is_requested(
    monkeypatch: pytest.MonkeyPatch, op: dict[str, Any]
) -> None:
    frame = pd.DataFrame({"age": [20.0, None, 40.0, 50.0], "note": ["a b", "", "c", None]})
    kinds = {"note": "text"}
    expected = transformer.FeatureProgram([op], schema=kinds, device="cpu").fit_transform(frame)
    monkeypatch.setattr(transformer, "choose", lambda device: DeviceDouble())
    program = transformer.FeatureProgram([op], schema=kinds)
    for matrix in (program.fit_transform(frame), program.transform(frame)):
        assert isinstance(matrix, np.ndarray)
        assert matrix.flags.f_contiguous
        np.testing.assert_allclose(matrix, expected, rtol=1e-6)
    there = transformer.FeatureProgram([op], schema=kinds, device="gpu").fit_transform(frame)
    assert isinstance(there, double.DeviceArray)
