"""Both reduction engines against plain loops and NumPy, and bit by bit against each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gpupipe_kernels.program.opcodes import NAT
from gpupipe_kernels.reduce.engine import BLOCK_ROWS, FLOAT32_MAX, LANES, CellLayout
from gpupipe_kernels.reduce.numba import engine as numba_engine
from gpupipe_kernels.reduce.numba import loops
from gpupipe_kernels.reduce.numpy import engine as numpy_engine

ENGINES = [numpy_engine, numba_engine]
TILE = loops.TILE
SIZES = [
    0,
    1,
    LANES - 1,
    LANES,
    LANES + 1,
    TILE - 1,
    TILE,
    TILE + 1,
    2 * BLOCK_ROWS + TILE + 3,
]
INF = math.inf


@pytest.fixture(scope="module", autouse=True)
def compiled_once() -> Iterator[None]:
    """Compile ahead, and check that no test triggers compilation for other types."""
    compiled = (loops.sweep, loops.count_few, loops.count, loops.bin_values, loops.fold, loops.tally)
    numba_engine.warm()
    before = [len(loop.signatures) for loop in compiled]
    yield
    assert [len(loop.signatures) for loop in compiled] == before


@pytest.fixture(params=ENGINES, ids=["numpy", "numba"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def numbers(n: int, dtype: str, seed: int = 0) -> np.ndarray:
    """Return numbers with ties, nulls, infinities, zeros of both signs, and values that exceed float32."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.lognormal(3, 2, n) - 20, 1).astype(dtype)
    for value in (np.nan, np.nan, 0.0, -0.0, INF, -INF, *((1e300, -1e39) if dtype == "float64" else ())):
        x[rng.random(n) < 0.02] = value
    return x


def sweep(engine: Any, x: np.ndarray, pivot: float, brackets: list[tuple[float, float]]) -> tuple[Any, ...]:
    sums, found = np.zeros((2, LANES)), np.zeros((len(brackets), 2), np.int64)
    given = np.array(brackets, x.dtype).reshape(-1, 2)
    out = np.full((len(brackets), len(x)), 99, x.dtype)
    counts = engine.sweep(x, pivot, sums, given, out, found)
    return (
        counts,
        sums,
        found,
        [row[:n] for row, (_, n), (low, high) in zip(out, found, given, strict=True) if low < high],
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_sums_are_those_of_exact_arithmetic(engine: Any, n: int, dtype: str) -> None:
    x, pivot = numbers(n, dtype), 3.5
    (n_added, n_null), sums, _, _ = sweep(engine, x, pivot, [])
    away = [value - pivot for value in x.astype(np.float64).tolist()]
    near = [value for value in away if abs(value) <= FLOAT32_MAX]
    assert (n_added, n_null) == (len(near), int(np.isnan(x).sum()))
    assert sums[0].sum() == pytest.approx(math.fsum(near), rel=1e-12)
    assert sums[1].sum() == pytest.approx(math.fsum(value * value for value in near), rel=1e-12)


@pytest.mark.parametrize("n_edges", [0, 1, 2, 62, 63, 64, 130])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_bins_are_those_of_comparisons(engine: Any, dtype: str, n_edges: int) -> None:
    x = numbers(3 * TILE + 5, dtype if dtype == "float32" else "float64", seed=n_edges)
    if dtype == "int64":
        x = np.where(np.abs(x) <= 2.0**60, x, float(NAT)).astype(np.int64)  # the extremes of the dtype stay
        x[:3] = NAT, NAT + 1, -(NAT + 1)
        valid = x != NAT
    else:
        valid = np.abs(x.astype(np.float64)) <= 2.0**125
    edges = np.unique(np.random.default_rng(n_edges).choice(x[valid], n_edges))
    counts = np.ones(len(edges) + 2, np.int64)
    engine.bin(x, edges, counts)
    places = (edges[None, :] <= x[valid][:, None]).sum(axis=1)
    expected = [np.count_nonzero(~valid), *(np.count_nonzero(places == i) for i in range(len(edges) + 1))]
    assert (counts - 1).tolist() == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
def test_brackets_equal_a_comparison(engine: Any, n: int, dtype: str) -> None:
    x = numbers(n, dtype)
    cases = [(-INF, INF), (-INF, 0.0), (0.0, INF), (-3.0, 25.5), (5.0, 5.0), (INF, INF), (1e6, 2e6)]
    _, _, found, inside = sweep(engine, x, 0.0, cases)
    exact = [tuple(np.array(case, dtype)) for case in cases]
    assert found[:, 0].tolist() == [int((x < low).sum()) for low, _ in exact]
    assert found[:, 1].tolist() == [int(((x >= low) & (x <= high)).sum()) for low, high in exact]
    wide = [(low, high) for low, high in exact if low < high]
    for (low, high), values in zip(wide, inside, strict=True):
        np.testing.assert_array_equal(values, x[(x >= low) & (x <= high)])


@pytest.mark.parametrize("n", SIZES)
def test_without_sums_only_brackets_are_filled(engine: Any, n: int) -> None:
    x, found = numbers(n, "float64"), np.zeros((1, 2), np.int64)
    given, out = np.array([[0.0, 9.0]]), np.empty((1, n))
    assert engine.sweep(x, 0.0, np.empty((0, LANES)), given, out, found) == (0, 0)
    assert found.tolist() == [[int((x < 0).sum()), int(((x >= 0) & (x <= 9)).sum())]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_engines_give_the_same_bits(dtype: str) -> None:
    for n in SIZES:
        x = numbers(n, dtype, seed=n)
        one, other = (sweep(engine, x, 1e3, [(-1.0, 30.0)]) for engine in ENGINES)
        assert one[0] == other[0]
        for left, right in zip((*one[1:3], *one[3]), (*other[1:3], *other[3]), strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("size", [1, 4, 7, 24, 25, 128])
@pytest.mark.parametrize("n", SIZES)
def test_codes_are_counted(engine: Any, n: int, size: int) -> None:
    rng = np.random.default_rng(n)
    for dtype in ("int8", "int16", "int32"):
        codes = rng.integers(0, size, n).astype(dtype)
        counts = np.full(size, 5)
        engine.count(codes, counts)
        np.testing.assert_array_equal(counts, 5 + np.bincount(codes, minlength=size))


@pytest.mark.parametrize("first", [0, 2])
def test_codes_are_counted_where_all_rows_have_one_code_or_none_has_a_level(engine: Any, first: int) -> None:
    for n in (8 * 255, 8 * 255 + 5, 100_000):
        counts = np.zeros(6, np.int64)
        engine.count(np.full(n, first, np.int8), counts)
        assert counts.tolist() == [n if code == first else 0 for code in range(6)]


def test_codes_of_more_than_two_bytes_are_counted(engine: Any) -> None:
    codes = np.random.default_rng(0).integers(0, 100_000, 300_000).astype(np.int32)
    counts = np.zeros(100_000, np.int64)
    engine.count(codes, counts)
    np.testing.assert_array_equal(counts, np.bincount(codes, minlength=100_000))


def mixed(h: int) -> int:
    """Return murmur3's finaliser, in Python integers."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor % 2**32
    return h ^ h >> 16


@pytest.mark.parametrize("n_folds", [2, 5, 100])
def test_folds_are_a_hash_of_seed_and_row(engine: Any, n_folds: int) -> None:
    start, seed = BLOCK_ROWS - 300, 42
    out = np.empty(600, np.int8)
    engine.fold(start, seed, n_folds, out)
    bits = seed * 0x9E3779B1 % 2**32
    expected = [mixed((mixed(start + i) + bits) % 2**32) * n_folds // 2**32 + 1 for i in range(len(out))]
    assert out.tolist() == expected
    assert set(out.tolist()) == set(range(1, n_folds + 1))


def table_of_codes(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    heights = {"int8": 3, "int16": 2, "int32": 1, "made_int8": 1, "made_int16": 1, "made_int32": 2}
    return {
        name: rng.integers(0, 4, (height, n)).astype(name.removeprefix("made_")) for name, height in heights.items()
    }


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "steps",
    [
        (("int16", 1, 0),),
        (("int8", 2, 0), ("int32", 0, 4), ("int16", 0, 5)),
        (("made_int8", 0, 0), ("int8", 0, 4), ("made_int16", 0, 4), ("made_int32", 1, 4)),
    ],
)
def test_rows_are_tallied_in_their_cells(engine: Any, n: int, steps: tuple[Any, ...]) -> None:
    blocks, y = table_of_codes(n), np.random.default_rng(1).normal(size=n)
    cell = np.zeros(n, np.int64)
    for block, row, stride in steps:
        cell = cell * stride + blocks[block][row]
    size = 400
    for target in (None, y):
        counts, totals = np.zeros(size, np.int64), np.zeros(0 if target is None else size)
        start, stop = n // 7, n - n // 9
        engine.tally(CellLayout(blocks, steps, size, target), start, stop, counts, totals)
        np.testing.assert_array_equal(counts, np.bincount(cell[start:stop], minlength=size))
        if target is not None:
            exact = np.zeros(size)
            np.add.at(exact, cell[start:stop], y[start:stop])  # row by row
            np.testing.assert_array_equal(totals, exact)


def test_tables_that_cannot_be_written_are_read(engine: Any) -> None:
    blocks = table_of_codes(1000)
    for block in blocks.values():
        block.flags.writeable = False
    counts = np.zeros(4, np.int64)
    engine.tally(CellLayout(blocks, (("int8", 0, 0),), 4), 0, 1000, counts, np.empty(0))
    engine.count(blocks["int8"][0], counts)
    assert counts.sum() == 2000
