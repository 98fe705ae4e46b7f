"""Metrics of rankings, compared with scikit-learn's query by query."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import cutoff_ndcgs, evaluate

Rows = list[tuple[int, int, int]]
ROWS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(-3, 3)), min_size=1, max_size=60)
NAMES = ["ndcg", "ndcg_10", "map"]


def expected(rows: Rows) -> dict[str, float]:
    query, y, score = (np.array(column) for column in zip(*rows, strict=True))
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for each in np.unique(query):
        own, given = y[query == each], score[query == each]
        if not own.any():
            continue
        found["map"].append(average_precision_score(own > 0, given))
        for name, k in (("ndcg", None), ("ndcg_10", 10)):
            found[name].append(1.0 if len(own) == 1 else ndcg_score([2.0**own - 1], [given], k=k))
    return {name: float(np.mean(values)) if values else math.nan for name, values in found.items()}


@given(rows=ROWS)
def test_metrics_are_those_of_scikit_learn(rows: Rows) -> None:
    query, y, score = (np.array(column, float) for column in zip(*rows, strict=True))
    found = evaluate("ranking", y, score, NAMES, groups=query, backend=CpuBackend())
    assert found == pytest.approx(expected(rows), abs=1e-12, nan_ok=True)


@given(rows=ROWS, seed=st.integers(0, 100))
def test_the_order_of_the_rows_does_not_matter(rows: Rows, seed: int) -> None:
    query, y, score = (np.array(column, float) for column in zip(*rows, strict=True))
    order = np.random.default_rng(seed).permutation(len(rows))
    first, second = (
        evaluate("ranking", y[own], score[own], NAMES, groups=query[own], backend=CpuBackend())
        for own in (np.arange(len(rows)), order)
    )
    assert first == pytest.approx(second, abs=1e-12, nan_ok=True)


def test_rows_without_scores_have_the_mean_of_all_orders() -> None:
    rng = np.random.default_rng(0)
    y, query = np.array([0, 1, 2, 0, 0, 3.0]), np.zeros(6)
    (found,) = cutoff_ndcgs(y, y, query, cutoffs=[3], backend=CpuBackend())
    drawn = [ndcg_score([2**y - 1], [rng.permutation(6)], k=3) for _ in range(4_000)]
    assert found.ndcg == 1.0
    assert found.random_ndcg == pytest.approx(np.mean(drawn), abs=3 * np.std(drawn) / 4_000**0.5)
