"""Statistics of weighted rows: those of repeated rows, of NumPy and of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from gpupipe.backends import choose
from gpupipe.backends.weighted_quantiles import weighted_quantiles
from gpupipe.features.ops.group_stats import learn_group
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm, NumericExpr, Producer, combine
from gpupipe.features.statistics import row_blocks
from gpupipe.features.statistics.training import Statistics
from tests.examples import examples

SHARES = [0.0, 0.05, 0.25, 0.5, 0.7, 0.9, 1.0]
N = 150
KINDS = {"plan": "categorical"}  # also if all of its values are null


def make(seed: int, n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "far": rng.normal(1e9, 1, n),
            "short": rng.normal(size=n).astype(np.float32),
            "ties": rng.integers(0, 7, n) / 4,
            "near": rng.gamma(2, 3, n),
            "constant": np.full(n, 0.1),
            "nothing": np.full(n, np.nan),
            "plan": rng.choice(np.array(["x", "y", "z", None], object), n),
            "city": rng.choice([f"c{i}" for i in range(30)], n),
        }
    )
    frame.loc[rng.random(n) < 0.2, ["far", "ties"]] = np.nan
    frame.loc[rng.random(n) < 0.05, "short"] = np.nan
    frame.loc[0, "short"] = np.inf
    return frame


def plain(name: str) -> NumericExpr:
    return NumericExpr(name, (name,), Producer("LOAD", name))


def numbers() -> list[NumericExpr]:
    """Return columns as read, with transforms that are derived, and computed ones."""
    sources = [plain(name) for name in ("far", "short", "ties", "constant", "nothing")]
    filled = [column.then("FILL", 2.0).then("CENTER", 1.0, 3.0) for column in sources]
    bent = [column.then("LOG1P") for column in sources]
    return [*sources, *filled, *bent, combine("sum", "ADD", (plain("ties"), plain("constant")))]


def category(statistics: Statistics, *names: str) -> CategoryExpr:
    sizes = [statistics.table.schema[name].n_codes for name in names]
    first, *others = (IndexTerm("INDEX_PAIR", name, stride=size) for name, size in zip(names, sizes, strict=True))
    return CategoryExpr("_".join(names), names, (IndexTerm("INDEX", first.source), *others), int(np.prod(sizes)), ())


def categories(statistics: Statistics) -> list[CategoryExpr]:
    bins = CategoryExpr("bins", ("ties",), (IndexTerm("INDEX_BIN", "ties", stride=3, edges=(0.5, 1.0)),), 6, ())
    pair = category(statistics, "city", "plan")
    city = category(statistics, "city")
    grouped = CategoryExpr("grouped", ("city",), city.index, city.size, ("a", "b"), np.arange(city.size) % 5)
    return [category(statistics, "plan"), city, pair, grouped, bins]


def assert_moments_alike(found: list[Any], expected: list[Any]) -> None:
    """Compare the moments of `numbers`; the pivot of computed columns, in float32, is that of the first rows."""
    np.testing.assert_allclose(found[:10], expected[:10], rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(found[10:], expected[10:], rtol=1e-6, atol=1e-6)


@pytest.fixture(params=["numbers", "two classes", "four classes"])
def target(request: pytest.FixtureRequest) -> Any:
    """Return a function of the number of rows."""
    if request.param == "numbers":
        return lambda n: np.random.default_rng(1).normal(5, 3, n)
    return lambda n: np.random.default_rng(1).integers(0, 2 if request.param[1] == "w" else 4, n)


@examples(30)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 100))
def test_statistics_with_integer_weights_equal_those_of_repeated_rows(fit, seed: int, n: int) -> None:
    frame, weights = make(seed, n), np.random.default_rng(seed).integers(1, 5, n)
    one = fit(frame, weights=weights, schema=KINDS).statistics
    repeated = frame.loc[frame.index.repeat(weights)]
    other = fit(repeated, schema=KINDS).statistics
    asked = numbers()
    assert_moments_alike(one.moments(asked), other.moments(asked))
    assert repr(one.quantiles(asked, SHARES)) == repr(other.quantiles(asked, SHARES))
    assert (one.modes(asked), one.extremes(asked)) == (other.modes(asked), other.extremes(asked))
    for found, expected in zip(one.weight_sums(categories(one)), other.weight_sums(categories(other)), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert one.frequent_codes(categories(one)[:2]) == other.frequent_codes(categories(other)[:2])


@examples(20)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 100))
def test_weights_of_one_equal_no_weights(fit, seed: int, n: int) -> None:
    frame = make(seed, n)
    one, other = fit(frame, weights=np.ones(n), schema=KINDS).statistics, fit(frame, schema=KINDS).statistics
    asked = numbers()
    assert repr(one.moments(asked)) == repr(other.moments(asked))
    assert repr(one.quantiles(asked, SHARES)) == repr(other.quantiles(asked, SHARES))
    assert one.modes(asked) == other.modes(asked) and one.exponents(asked) == other.exponents(asked)
    for found, expected in zip(one.shares(categories(one)), other.shares(categories(other)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_target_counts_with_integer_weights_equal_those_of_repeated_rows(fit, target: Any) -> None:
    frame, weights = make(0), np.random.default_rng(0).integers(1, 5, N)
    y = target(N)
    one = fit(frame, y=y, weights=weights).statistics
    other = fit(frame.loc[frame.index.repeat(weights)], y=y.repeat(weights)).statistics
    found, expected = (s.target_counts(categories(s), 3) for s in (one, other))
    for got, exact in zip(found, expected, strict=True):  # the folds of repeated rows are others
        np.testing.assert_array_equal(got.count.sum(axis=0), exact.count.sum(axis=0))
        np.testing.assert_allclose(got.total.sum(axis=0), exact.total.sum(axis=0), rtol=1e-12, atol=1e-12)


def test_target_counts_of_each_fold_match_pandas(fit, target: Any) -> None:
    frame, weights, y = make(0), np.random.default_rng(0).lognormal(0, 2, N), target(N)
    statistics = fit(frame, y=y, weights=weights).statistics
    (counts,) = statistics.target_counts([category(statistics, "city")], 3)
    fold, codes = statistics.folds(3) - 1, statistics.table.column("city")
    n_codes = statistics.table.schema["city"].n_codes
    outputs = [y == k for k in range(4)] if y.max() == 3 and y.dtype.kind == "i" else [y]
    for values, sums in ((np.ones(N), counts.count), *zip(outputs, counts.total.transpose(2, 0, 1), strict=True)):
        expected = np.zeros((3, n_codes))
        np.add.at(expected, (fold, codes), weights * values)
        np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows_per_block", [64, row_blocks.ROWS_PER_BLOCK])
def test_mean_and_deviation_match_numpy_and_scikit_learn(
    fit, dtype: Any, rows_per_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_blocks, "ROWS_PER_BLOCK", rows_per_block)
    rng = np.random.default_rng(0)
    x = rng.normal(1e6, 3, 1000).astype(dtype)
    x[::9] = np.nan
    weights, known = rng.lognormal(0, 2, 1000), ~np.isnan(x)
    statistics = fit({"x": x}, weights=weights).statistics
    ((mean, deviation),) = statistics.moments([plain("x")])
    exact = x[known].astype(np.float64)
    scaler = StandardScaler().fit(exact[:, None], sample_weight=weights[known])
    assert mean == pytest.approx(np.average(exact, weights=weights[known]), rel=1e-14)
    assert (mean, deviation) == pytest.approx((scaler.mean_[0], scaler.scale_[0]), rel=1e-9)
    (filled,) = statistics.moments([plain("x").then("FILL", 1e6 + 9)])
    everything = np.where(known, x, 1e6 + 9)
    average = np.average(everything, weights=weights)
    spread = np.sqrt(np.average((everything - average) ** 2, weights=weights))
    assert filled == pytest.approx((average, spread), rel=1e-9)
    assert statistics.null_counts([plain("x")]) == [np.count_nonzero(~known)]


def test_a_weighted_constant_has_no_deviation(fit) -> None:
    statistics = fit({"x": np.full(1000, 0.1)}, weights=np.random.default_rng(0).lognormal(0, 3, 1000)).statistics
    assert statistics.moments([plain("x")]) == [(0.1, 0.0)]


ROWS = st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 9)), min_size=1, max_size=30)
LEVELS = st.lists(st.integers(0, 20).map(lambda k: k / 20) | st.floats(0, 1), min_size=1, max_size=5)


@examples(100)
@given(rows=ROWS, shares=LEVELS, dtype=st.sampled_from([np.float32, np.float64]))
@pytest.mark.parametrize("method", ["linear", "averaged_inverted_cdf"])
def test_quantiles_are_those_of_numpy_for_repeated_rows(rows, shares: list[float], dtype: Any, method: Any) -> None:
    x, weights = (np.array(part, float) for part in zip(*rows, strict=True))
    x = (x / 7).astype(dtype)
    found = weighted_quantiles(np.append(x, dtype(np.nan)), np.append(weights, 5.0), shares, choose("cpu"), method)
    repeated = x.repeat(weights.astype(int)).astype(float)
    # NumPy compares shares of rows in float64, without a tolerance.
    if method == "linear" or all(abs(share * len(repeated) % 1 - 0.5) < 0.49 for share in shares):
        np.testing.assert_allclose(found, np.quantile(repeated, shares, method=method), rtol=1e-12, atol=1e-14)


def quantile(x: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Return the integral of the sorted rows, each as long as its weight, over a window as long as a row."""
    order = np.argsort(x)
    ends = np.append(0.0, np.cumsum(weights[order]))
    row = min(1.0, weights.min())
    start = share * (ends[-1] - row)
    lengths = np.clip(np.minimum(ends[1:], start + row) - np.maximum(ends[:-1], start), 0.0, None)
    return float(np.average(x[order], weights=lengths))


@examples(100)
@given(
    rows=ROWS,
    shares=LEVELS,
    scale=st.sampled_from([0.1, 1 / 3, 3e-7, 1.7, 1e12 / 7]),
    by=st.sampled_from([lambda w: w, np.sqrt, lambda w: np.exp(-w)]),
)
def test_quantiles_of_other_weights_match_their_definition(rows, shares: list[float], scale: float, by: Any) -> None:
    x, weights = (np.array(part, float) for part in zip(*rows, strict=True))
    weights, backend = by(weights) * scale, choose("cpu")
    found = weighted_quantiles(x, weights, shares, backend)
    np.testing.assert_allclose(found, [quantile(x, weights, share) for share in shares], rtol=1e-9, atol=1e-9)
    assert weighted_quantiles(x, weights, [0.0, 1.0], backend) == [x.min(), x.max()]
    order = np.random.default_rng(0).permutation(len(x))
    assert weighted_quantiles(x[order], weights[order], shares, backend) == found  # to the last bit


@examples(30)
@given(rows=ROWS, shares=LEVELS, weight=st.sampled_from([1.0, 0.1, 1 / 3, 1e-9]))
def test_equal_weights_of_at_most_one_equal_none(rows, shares: list[float], weight: float) -> None:
    x = np.array([value for value, _ in rows]) / 7
    found = weighted_quantiles(x, np.full(len(x), weight), shares, choose("cpu"))
    np.testing.assert_allclose(found, np.quantile(x, shares), rtol=1e-12, atol=1e-14)


def test_quantiles_of_infinities_and_of_nothing() -> None:
    x = np.array([np.inf, np.inf, 1.0, -np.inf])
    assert weighted_quantiles(x, np.ones(4), [0.0, 0.5, 1.0], choose("cpu")) == [-np.inf, np.inf, np.inf]
    for nothing in (np.array([]), np.array([np.nan])):
        assert weighted_quantiles(nothing, np.ones(len(nothing)), SHARES, choose("cpu")) == [0.0] * len(SHARES)


@pytest.mark.parametrize("scale", [1.0, 0.1, 1 / 3])
def test_ties_of_weight_sums_go_to_the_smallest_value_and_the_first_level(fit, scale: float) -> None:
    """0.1 + 0.1 + 0.1 exceeds 0.3 in float64."""
    frame = {"x": [2.0, 2.0, 2.0, 1.0, 3.0], "c": ["b", "b", "b", "a", "c"]}
    statistics = fit(frame, weights=np.array([1, 1, 1, 3, 2]) * scale).statistics
    assert statistics.modes([plain("x")]) == [1.0]
    assert statistics.frequent_codes([category(statistics, "c")]) == [3]


def test_rows_count_in_levels_ranges_and_null_counts(fit) -> None:
    frame, weights = make(0), np.random.default_rng(0).lognormal(0, 2, N)
    one, other = fit(frame, weights=weights), fit(frame)
    for found, expected in zip(*(f.statistics.counts(categories(f.statistics)) for f in (one, other)), strict=True):
        np.testing.assert_array_equal(found, expected)
    for name in ("null_counts", "extremes"):
        assert getattr(one.statistics, name)(numbers()) == getattr(other.statistics, name)(numbers())
    assert one.features.training == other.features.training


def test_group_moments_with_integer_weights_equal_those_of_repeated_rows(fit) -> None:
    frame, weights = make(0), np.random.default_rng(0).integers(1, 5, N)
    frame["short"] = frame["short"].replace(np.inf, 0.0)
    one = fit(frame, weights=weights).statistics
    other = fit(frame.loc[frame.index.repeat(weights)]).statistics
    found, expected = (learn_group(plain("short"), category(s, "plan"), s) for s in (one, other))
    assert found.pivot == expected.pivot
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.deviation, expected.deviation, rtol=1e-6)


OPS: dict[str, dict[str, Any]] = {
    "standardize": {"standardize": ["far", "ties"]},
    "mean": {"impute": {"columns": ["far", "ties"], "strategy": "mean"}},
    "median": {"impute": {"columns": ["far", "ties"], "strategy": "median"}},
    "most frequent": {"impute": {"columns": ["ties", "plan"], "strategy": "most_frequent"}},
    "robust_scale": {"robust_scale": ["far", "ties"]},
    "bucketize": {"bucketize": {"columns": ["near", "ties"], "bins": 7}},
    "uniform": {"bucketize": {"columns": ["near", "ties"], "bins": 7, "strategy": "uniform"}},
    "min_max": {"min_max": ["far", "ties"]},
    "log1p": {"log1p": "ties"},
    "one_hot": {"one_hot": {"columns": ["plan", "city"], "max_categories": 5}},
    "categorify": {"categorify": {"columns": ["plan", "city"], "min_frequency": 13}},
    "encode": {"encode": {"columns": "city", "max_one_hot": 6}},
    "cross": {"cross": {"columns": ["plan", "city"], "as": "both"}},
    "hash_bucket": {"hash_bucket": {"columns": "city", "buckets": 7}},
    "polynomial": {"polynomial": ["far", "ties"]},
    "expression": {"expression": {"ratio": "far / (1 + ties)"}},
    "clip": {"clip": {"columns": ["far", "ties"], "quantiles": [0.1, 0.9]}},
    "target_encode": {"target_encode": {"columns": ["plan", "city"], "smoothing": 3}},
    "frequency_encode": {"frequency_encode": ["plan", "city"]},
    "yeo_johnson": {"yeo_johnson": "ties"},
    "auto": {"auto": "@all"},
}


UNWEIGHTED = {"uniform", "min_max", "log1p", "cross", "hash_bucket", "polynomial", "expression"}


@pytest.mark.parametrize("name", OPS)
def test_an_op_with_integer_weights_equals_the_op_on_repeated_rows(fit, name: str, target: Any) -> None:
    """The served values, since the folds of repeated training rows are others."""
    frame, weights, y = make(0), np.random.default_rng(0).integers(0, 5, N), target(N)
    frame = frame.drop(columns=["short", "nothing"])
    ops, schema = [OPS[name]], {"plan": "categorical"}
    used = np.flatnonzero(weights)
    one = fit(frame.iloc[used], ops, y=y[used], weights=weights[used], schema=schema)
    several = np.arange(N).repeat(weights)
    other = fit(frame.iloc[several], ops, y=y[several], schema=schema)
    assert one.names == other.names
    np.testing.assert_allclose(one.serve(frame), other.serve(frame), rtol=2e-5, atol=1e-5)
    if name not in UNWEIGHTED:
        assert str(one.features.states) != str(fit(frame.iloc[used], ops, y=y[used]).features.states)
    ones = fit(frame, ops, y=y, weights=np.ones(N), schema=schema)
    assert str(ones.features.states) == str(fit(frame, ops, y=y, schema=schema).features.states)


def test_a_mean_of_tiny_weights_is_a_mean(fit) -> None:
    """The sums of weights are below 1, where a count would be at least 1."""
    frame = {"c": ["a", "a", "b", "b"]}
    op = {"target_encode": {"columns": "c", "smoothing": 0}}
    made = fit(frame, [op, {"frequency_encode": "c"}], y=np.array([1.0, 2.0, 3.0, 5.0]), weights=np.full(4, 1e-9))
    np.testing.assert_allclose(made.serve(frame)["c_target"], [1.5, 1.5, 4.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(made.serve(frame)["c_frequency"], 0.5, rtol=1e-6)
    prior = fit(frame, [op], y=np.array([1.0, 2.0, 3.0, 5.0]), weights=np.full(4, 1e-9)).serve({"c": ["new"]})
    np.testing.assert_allclose(prior["c_target"], 2.75, rtol=1e-6)


@pytest.mark.parametrize("n_threads", [1, 4])
def test_threads_and_engines_do_not_change_a_bit(fit, n_threads: int) -> None:
    several = np.arange(600_000) % N
    frame, y = make(0).iloc[several].reset_index(drop=True), np.random.default_rng(0).normal(size=600_000)
    weights = np.random.default_rng(0).lognormal(0, 2, 600_000)
    ops = [OPS["median"], OPS["standardize"], OPS["target_encode"], {"standardize": {"columns": "short"}}]
    found = fit(frame, ops, y=y, weights=weights, n_threads=n_threads)
    assert str(found.features.states) == str(fit(frame, ops, y=y, weights=weights, n_threads=2).features.states)
