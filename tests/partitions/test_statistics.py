"""Statistics learned on workers: bit-identical to those of one machine."""

from __future__ import annotations

import pickle
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.backends import Backend
from gpupipe.features import OPS as REGISTRY
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm, NumericExpr, Producer, combine
from gpupipe.features.program.fit import fit_features
from gpupipe.features.program.fitted import FittedFeatures, write_matrix
from gpupipe.features.program.target import Target
from gpupipe.features.statistics import numbers as number_statistics
from gpupipe.features.statistics import quantiles
from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK
from gpupipe.features.statistics.training import Statistics
from gpupipe.partitions.statistics import reductions, training
from gpupipe.partitions.statistics.rank_selection import keys_of, value_of
from gpupipe.partitions.statistics.training import PartitionedStatistics
from gpupipe.partitions.table import PartitionedTable
from gpupipe.partitions.workers import Workers
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import FIRST_LEVEL, Column, declare
from gpupipe_kernels.program.opcodes import CalendarPart
from tests.examples import examples
from tests.nightly import nightly_unless

N = 1000
CUTS = {
    "one": [],
    "two": [610],
    "three, one of them short": [200, 204],
    "seven": [100, 290, 350, 520, 640, 900],
    "empty ones": [0, 0, 300, 300, 780, N, N],
    "one huge": [32, N - 40],
}
WEIGHTED = ("two", "three, one of them short", "one huge")  # by day
SHARES = [0.0, 0.1, 0.5, 0.9, 1.0]
MANY = [i / 20 for i in range(21)]


def make(seed: int, n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "wide": rng.normal(size=n) * np.exp(rng.normal(size=n) * 9),
            "far": rng.normal(1e9, 1, n),
            "short": rng.normal(size=n).astype(np.float32),
            "ties": rng.integers(0, 7, n) / 4,
            "constant": np.full(n, 0.1),
            "nothing": np.full(n, np.nan),
            "late": np.where(np.arange(n) < 0.8 * n, np.nan, rng.normal(size=n)),
            "plan": rng.choice(np.array(["x", "y", "z", None], object), n),
            "city": rng.choice([f"c{i}" for i in range(40)], n),
            "where": np.where(np.arange(n) < 20, "the start", np.where(np.arange(n) > n - 9, "the end", "middle")),
            "active": rng.random(n) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 10**6, n), unit="min"),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "never": pd.Series(pd.NaT, index=range(n), dtype="datetime64[us]"),
            "words": [f"row {i}" for i in range(n)],
            "zone": np.where(np.arange(n) < 300, "Asia/Tokyo", np.where(np.arange(n) < n - 9, "Europe/Berlin", "Moon")),
        }
    )
    frame.loc[rng.random(n) < 0.2, ["wide", "ties", "since"]] = np.nan
    frame.loc[rng.random(n) < 0.02, "wide"] = np.inf
    frame.loc[rng.random(n) < 0.02, "short"] = -np.inf
    frame.loc[rng.random(n) < 0.1, "ties"] = -0.0
    return frame


def encode_chunks(frame: pd.DataFrame, backend: Backend) -> Table:
    kinds = {name: declare("text" if name == "words" else "categorical") for name in ("words", "plan", "city", "where")}
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    return encode(arrow, backend, kinds | {"never": declare("datetime")})


NUMBERS = ("wide", "far", "short", "ties", "constant", "nothing", "late")


def plain(name: str) -> NumericExpr:
    return NumericExpr(name, (name,), Producer("LOAD", name))


def columns() -> list[NumericExpr]:
    """Return columns as they were read, chains that can be followed, and such that have to be made."""
    sources = [plain(name) for name in NUMBERS]
    filled = [column.then("FILL", 2.0).then("CENTER", 1.0, 3.0) for column in sources]
    bent = [column.then("LOG1P") for column in sources] + [plain("far").then("SINE", 0.1, 1.0)]
    null = NumericExpr("null", ("late",), Producer("IS_NULL", "late"))
    sums = combine("sum", "ADD", (plain("ties"), plain("short").then("LOG1P")))
    return [*sources, *filled, *bent, null, sums]


def index(table: Any, *names: str) -> CategoryExpr:
    sizes = [table.schema[name].n_codes for name in names]
    first, *others = (IndexTerm("INDEX_PAIR", name, stride=size) for name, size in zip(names, sizes, strict=True))
    return CategoryExpr("_".join(names), names, (IndexTerm("INDEX", first.source), *others), int(np.prod(sizes)), ())


def codes(table: Any) -> list[CategoryExpr]:
    bins = CategoryExpr(
        "bins", ("far",), (IndexTerm("INDEX_BIN", "far", stride=3, edges=(1e9 - 1, 1e9, 1e9 + 1)),), 7, ()
    )
    hours = CategoryExpr("hours", ("since",), (IndexTerm("INDEX_PART", "since", part=int(CalendarPart.HOUR)),), 25, ())
    pair = index(table, "city", "plan")
    grouped = CategoryExpr("grouped", ("city",), index(table, "city").index, index(table, "city").size, ("a", "b"),
                    np.arange(index(table, "city").size) % (FIRST_LEVEL + 2))  # fmt: skip
    return [*(index(table, name) for name in ("plan", "city", "where", "active")), pair, grouped, bins, hours]


def answers(statistics: Statistics) -> list[Any]:
    """Return what every question is answered, in bits."""
    asked, table = columns(), statistics.table
    found: list[Any] = [
        table.schema,
        statistics.n_rows,
        statistics.moments(asked),
        statistics.null_counts(asked),
        statistics.quantiles(asked, SHARES),
        statistics.quantiles(asked, MANY),
        statistics.quantiles(asked, []),
        statistics.medians(asked),
        statistics.extremes(asked),
        statistics.modes(asked),
        statistics.exponents(asked),
        [counts.tolist() for counts in statistics.counts(codes(table))],
        [statistics.time_range(name) for name in ("since", "day", "never")],
        [statistics.has_time_of_day(name) for name in ("since", "day", "never")],
    ]
    if statistics.weights is not None:
        found += [[sums.tolist() for sums in statistics.shares(codes(table))], statistics.frequent_codes(codes(table))]
    if statistics.target is not None:
        counted = statistics.target_counts(codes(table), 3) + statistics.target_counts(codes(table)[:2], 5)
        found += [(c.count.tolist(), c.total.shape, c.total.tobytes()) for c in counted]
    return [repr(value) for value in found]


def targets(seed: int, n: int) -> dict[str, Target | None]:
    rng = np.random.default_rng(seed)
    others = (Target(rng.normal(size=n), 0, name="u"), Target(rng.integers(0, 3, n).astype(float), 3, name="v"))
    return {
        "several": Target(rng.integers(0, 2, n).astype(float), 2, name="t", others=others),
        "none": None,
        "two classes": Target(rng.integers(0, 2, n).astype(float), 2),
        "three classes": Target(rng.integers(0, 3, n).astype(float), 3),
        "numbers": Target(rng.normal(size=n) * np.exp(9 * rng.normal(size=n)), 0),
    }


def both(
    table: Table, parted: PartitionedTable, target: Target | None, backend: Backend, weights: Any = None
) -> tuple[Statistics, PartitionedStatistics]:
    one = Statistics(table, backend, target, 7, weights=weights)
    return one, PartitionedStatistics(parted, backend, target, 7, weights)


def draw_weights(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(0, 2, n)


KINDS = ("several", "none", "numbers")  # the next test draws from all


@pytest.mark.parametrize(
    ("name", "kind", "is_weighted"),
    nightly_unless(
        lambda name, kind, is_weighted: KINDS[list(CUTS).index(name) % 3] == kind and is_weighted == (name in WEIGHTED),
        product(CUTS, KINDS, (False, True)),
    ),
)
def test_every_statistic_matches_one_machine(
    backend: Backend, workers: Workers, divide: Any, small_parts: Any, name: str, kind: str, is_weighted: bool
) -> None:
    cuts = CUTS[name]
    table, weights = encode_chunks(make(0), backend), draw_weights(0, N) if is_weighted else None
    with small_parts(32):
        one, many = both(table, divide(table, cuts, workers), targets(1, N)[kind], backend, weights)
        assert len(many.table.partitions) >= min(len(set(cuts) - {0, N}), 2)
        assert answers(many) == answers(one)
        folds = np.concatenate(workers.gather(many.folds(5)))
        np.testing.assert_array_equal(folds, one.folds(5))


@examples(10)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 300),
    cuts=st.lists(st.integers(0, 300), max_size=6).map(sorted),
    rows_a_part=st.sampled_from([7, 64, 1000]),
    few_values=st.sampled_from([2, 50, 1000]),
    kind=st.sampled_from(sorted(targets(0, 1))),
    weigh=st.sampled_from([None, draw_weights, lambda seed, n: np.full(n, 0.1)]),
)
def test_statistics_match_one_machine_for_any_rows_and_partitions(
    backend: Backend, workers: Workers, divide: Any, small_parts: Any, seed: int, n: int, cuts: list[int],
    rows_a_part: int, few_values: int, kind: str, weigh: Any,
) -> None:  # fmt: skip
    """The levels are those of more rows than are fitted, as in a run, so that some are dropped."""
    table = encode_chunks(make(seed, 310), backend)
    mask = np.arange(310) < n
    with small_parts(rows_a_part, few_values):
        parted = divide(table, cuts, workers).take(mask, backend)
        weights = None if weigh is None else weigh(seed, n)
        one, many = both(table.take(mask, backend), parted, targets(seed, n)[kind], backend, weights)
        assert answers(many) == answers(one)


def test_statistics_match_one_machine_if_brackets_miss_and_little_is_sent(
    backend: Backend, workers: Workers, divide: Any, small_parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = encode_chunks(make(3), backend)
    parted = divide(table, CUTS["seven"], workers)
    with small_parts(32):
        expected = answers(Statistics(table, backend, None, 7))
        monkeypatch.setattr(number_statistics, "SAMPLE_ROWS", 300)
        sampled = answers(Statistics(table, backend, None, 7))
        assert sampled != expected
        monkeypatch.setattr(reductions, "MOST_SENT", 10)
        monkeypatch.setattr(training, "MOST_SENT", 10)
        assert answers(PartitionedStatistics(parted, backend, None, 7)) == sampled
        monkeypatch.setattr(quantiles, "DEVIATIONS", 0.0)
        assert answers(PartitionedStatistics(parted, backend, None, 7)) == sampled


def test_it_is_with_parts_of_their_true_size(backend: Backend, workers: Workers, divide: Any) -> None:
    n = 2 * ROWS_PER_BLOCK + 12_345
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": np.where(rng.random(n) < 0.05, np.nan, rng.lognormal(3, 2, n)),
            "k": rng.integers(0, 99, n).astype(np.float32),
            "city": pd.Categorical.from_codes(rng.integers(0, 500, n), pd.Index([f"c{i}" for i in range(500)])),
        }
    )
    table = encode(pa.Table.from_pandas(frame), backend)
    target = Target(rng.normal(size=n), 0)
    one, many = both(table, divide(table, [ROWS_PER_BLOCK - 99, n - 100_000, n - 7], workers), target, backend)
    assert many.table.bounds == [0, ROWS_PER_BLOCK, 2 * ROWS_PER_BLOCK, n]
    asked = [plain("x"), plain("k"), plain("x").then("LOG1P")]
    for name, arguments in {
        "quantiles": (SHARES,), "moments": (), "medians": (), "extremes": (), "modes": (), "exponents": (),
    }.items():  # fmt: skip
        found = [repr(getattr(statistics, name)(asked, *arguments)) for statistics in (many, one)]
        assert found[0] == found[1], name
    sums = [statistics.target_counts([index(table, "city")], 5)[0].total for statistics in (many, one)]
    assert sums[0].tobytes() == sums[1].tobytes()


OPS: list[dict[str, Any]] = [
    {"impute": {"columns": ["wide", "ties"], "indicator": True}},
    {"clip": {"columns": "wide", "quantiles": [0.01, 0.99]}},
    {"bucketize": {"columns": "ties", "bins": 3, "strategy": "kmeans", "as": "tied"}},
    {"log1p": "ties"},
    {"yeo_johnson": "short"},
    {"standardize": ["ties", "far"]},
    {"bucketize": {"columns": "late", "bins": 12}},
    {"cross": {"columns": ["late", "plan"], "as": "pair"}},
    {"frequency_encode": "pair"},
    {"target_encode": {"columns": ["city", "pair"], "smoothing": 3}},
    {"target_encode": {"columns": ["plan", "tied"], "smoothing": "auto"}},
    {"target_encode": {"columns": "plan", "of": "short", "smoothing": "auto"}},
    {"categorify": {"columns": ["where", "plan"], "vocabulary": "shared", "max_categories": 3, "buckets": 4}},
    {"one_hot": {"columns": "plan", "max_categories": 2}},
    {"hash_bucket": {"columns": "where", "buckets": 8}},
    {"datetime_parts": {"columns": "since", "parts": ["hour"], "zone": {"column": "zone"}}},
]


def fitted(statistics: Statistics, view: Any) -> FittedFeatures:
    ops = [REGISTRY.get(name).model_validate(given) for op in OPS for name, given in op.items()]
    return fit_features(ops, statistics, view)


@pytest.mark.parametrize(
    ("name", "view", "is_weighted"),
    nightly_unless(
        lambda name, view, is_weighted: (
            ("codes", "dense")[list(CUTS).index(name) % 2] == view and is_weighted == (name in WEIGHTED)
        ),
        product(CUTS, ("codes", "dense"), (False, True)),
    ),
)
def test_a_fit_and_its_matrices_match_one_machine(
    backend: Backend, workers: Workers, divide: Any, small_parts: Any, name: str, view: Any, is_weighted: bool
) -> None:
    cuts = CUTS[name]
    table, rows = encode_chunks(make(5), backend), np.random.default_rng(5).random(N) < 0.7
    with small_parts(32):
        target = Target(targets(5, N)["two classes"].values[rows], 2)  # type: ignore[union-attr]
        parted = divide(table, cuts, workers)
        weights = draw_weights(5, rows.sum()) if is_weighted else None
        one, many = both(table.take(rows, backend), parted.take(rows, backend), target, backend, weights)
        alone, shared = fitted(one, view), fitted(many, view)
        assert (shared.schema, shared.features, shared.notes) == (alone.schema, alone.features, alone.notes)
        assert repr(shared.states) == repr(alone.states)
        for ours, theirs in ((shared.program, alone.program), (shared.training_program, alone.training_program)):
            assert pickle.dumps(ours) == pickle.dumps(theirs)
        trained = write_matrix(many.table, shared, backend, True)
        assert trained.shape == (rows.sum(), len(alone.features))
        assert trained.gather().tobytes() == alone.transform_training(one.table, backend).tobytes()
        assert write_matrix(parted, shared, backend).gather().tobytes() == alone.transform(table, backend).tobytes()


def test_no_reduction_is_computed_twice(
    backend: Backend, workers: Workers, divide: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = encode_chunks(make(0), backend)
    statistics = PartitionedStatistics(divide(table, [500], workers), backend, targets(0, N)["two classes"], 0)
    before = answers(statistics)
    monkeypatch.setattr(type(workers), "submit", None)
    asked = [plain(name) for name in NUMBERS]
    assert repr(statistics.quantiles(asked, SHARES)[: len(NUMBERS)])[:-1] in before[4]
    assert len(statistics.moments(asked)) == len(statistics.counts(codes(statistics.table))) - 1


def test_no_more_values_of_a_bracket_are_sent_than_may_be(
    backend: Backend, workers: Workers, divide: Any, small_parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_parts(32):
        parted = divide(encode_chunks(make(0), backend), [320, 640], workers)
        for most, n_sent in ((3 * N, N), (30, 0)):
            monkeypatch.setattr(reductions, "MOST_SENT", most)
            reducer = PartitionedStatistics(parted, backend, None, 0)._reducer
            ((*found,),) = reducer.reduce_columns(["far"], [0.0], [np.array([[-np.inf, np.inf]])])
            assert sum(part.brackets[0].n for part in found) == N
            assert sum(len(part.brackets[0].values) for part in found) == n_sent


def test_a_hashed_column_is_added_to_every_partition(backend: Backend, workers: Workers, divide: Any) -> None:
    table = encode_chunks(make(0), backend)
    one, many = both(table, divide(table, [500], workers), None, backend)
    hashed = Column("city#4", "categorical", "string", hash_of="city", n_buckets=4)
    for statistics in (one, many):
        statistics.add_hashed(hashed)
    assert many.table.schema == one.table.schema
    np.testing.assert_array_equal(many.table.column("city#4"), one.table.column("city#4"))


@examples(100)
@given(
    values=st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=20),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_integers_of_numbers_are_in_their_order(values: list[float], dtype: str) -> None:
    x = np.array(values, dtype) + 0.0
    keys = keys_of(x)
    np.testing.assert_array_equal(np.argsort(keys, kind="stable"), np.argsort(x, kind="stable"))
    assert [value_of(int(key), dtype) for key in keys] == x.tolist()
