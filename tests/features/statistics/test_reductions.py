"""One-pass statistics of numeric columns: against NumPy, and bit-identical for any number of threads and engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpupipe.backends import Backend, choose
from gpupipe.features.program.compile import compile_program
from gpupipe.features.program.expressions import NumericExpr, Producer
from gpupipe.features.statistics.reductions import Reducer
from gpupipe.features.statistics.row_blocks import ROWS_PER_BLOCK
from gpupipe.table.blocks import Table
from gpupipe.table.schema import Column, Schema
from gpupipe_kernels.reduce.numba import engine as numba_engine
from gpupipe_kernels.reduce.numpy import engine as numpy_engine

N = 2 * ROWS_PER_BLOCK + 12_345
ENGINES = [numpy_engine, numba_engine]


def backend(n_threads: int) -> Backend:
    made = choose("cpu")
    made.n_threads = n_threads
    return made


@pytest.fixture(scope="module")
def columns() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    skewed = rng.lognormal(3, 1, N)
    skewed[rng.random(N) < 0.05] = np.nan
    wild = rng.normal(1e6, 1, N)
    wild[:3] = np.inf, -np.inf, np.nan
    return [skewed, wild, rng.integers(0, 9, N).astype(np.float32), np.full(N, np.nan), np.full(N, 0.1)]


@pytest.mark.parametrize("engine", ENGINES, ids=["numpy", "numba"])
def test_moments_and_quantiles_are_numpys(engine: Any, columns: list[np.ndarray]) -> None:
    found = Reducer(backend(2), engine).quantiles(columns, [0.5, 0.9])
    for x, (moments, values) in zip(columns, found, strict=True):
        known, finite = x[~np.isnan(x)].astype(float), x[np.isfinite(x)].astype(float)
        assert (moments.n, moments.n_null) == (len(finite), N - len(known))
        assert moments.mean == pytest.approx(finite.mean() if len(finite) else 0.0, rel=1e-12)
        assert moments.deviation == pytest.approx(finite.std() if len(finite) else 0.0, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(values, np.quantile(known, [0.5, 0.9]) if len(known) else [0.0, 0.0], rtol=1e-14)


def test_neither_threads_nor_engines_change_a_bit(columns: list[np.ndarray]) -> None:
    found = [Reducer(backend(n), engine).quantiles(columns, [0.5]) for n in (1, 2, 5) for engine in ENGINES]
    alone = [Reducer(backend(n), engine).moments(columns) for n in (1, 3) for engine in ENGINES]
    assert all(one == found[0] for one in found)
    assert all(one == [moments for moments, _ in found[0]] for one in alone)


@pytest.mark.parametrize("engine", ENGINES, ids=["numpy", "numba"])
def test_extremes_are_those_of_finite_values(engine: Any, columns: list[np.ndarray]) -> None:
    for x, found in zip(columns, Reducer(backend(2), engine).extremes(columns), strict=True):
        finite = x[np.isfinite(x)]
        assert found == ((finite.min(), finite.max()) if len(finite) else (0.0, 0.0))


@pytest.mark.parametrize("engine", ENGINES, ids=["numpy", "numba"])
def test_the_output_of_a_program_is_never_materialised(
    engine: Any, columns: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema((Column("x", "numeric", "double", storage="float64"),))
    table = Table(schema, N, {"float64": columns[0][None]}, {"x": ("float64", 0)})
    made = [
        NumericExpr("x", ("x",), Producer("LOAD", "x")).then("LOG1P"),
        NumericExpr("y", ("x",), Producer("IS_NULL", "x")),
    ]
    host = backend(2)
    heights = []
    run = host.run_program

    def measured(program: Any, blocks: Any, out: Any, **options: Any) -> None:
        heights.append(len(out))
        run(program, blocks, out, **options)

    monkeypatch.setattr(host, "run_program", measured)
    found = Reducer(host, engine).program_moments(compile_program(made, table.places), table)
    assert max(heights) <= ROWS_PER_BLOCK and sum(heights) == N
    for moments, x in zip(found, (np.log1p(columns[0]), np.isnan(columns[0])), strict=True):
        known = x[~np.isnan(x)].astype(np.float64)
        assert (moments.n, moments.n_null) == (len(known), N - len(known))
        assert moments.mean == pytest.approx(known.mean(), rel=1e-6)
        assert moments.deviation == pytest.approx(known.std(), rel=1e-6)


def test_no_columns_and_no_rows() -> None:
    reducer = Reducer(backend(2), numpy_engine)
    assert reducer.moments([]) == [] and reducer.quantiles([], [0.5]) == [] and reducer.extremes([]) == []
    empty = np.empty(0, np.float32)
    ((moments, values),) = reducer.quantiles([empty], [0.5])
    assert (moments.n, moments.deviation, values) == (0, 0.0, [0.0])
    assert reducer.extremes([empty]) == [(0.0, 0.0)]
