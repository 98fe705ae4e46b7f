from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import curves
from gpupipe.metrics.ranking import Ranking
from tests.examples import examples

HOST = CpuBackend()
# Equal scores, both zeros, one, numbers below the normal ones, and neighbours.
SCORE = st.one_of(st.sampled_from([0.0, -0.0, 0.5, 1.0, 5e-324, np.nextafter(1.0, 0.0)]), st.floats(0.0, 1.0))
ROWS = st.lists(st.tuples(st.booleans(), SCORE), min_size=2, max_size=40).filter(
    lambda rows: len({truth for truth, _ in rows}) == 2
)


def _columns(rows: list[tuple[bool, float]]) -> tuple[Any, Any]:
    return np.array([truth for truth, _ in rows]), np.array([score for _, score in rows])


@examples(60)
@given(rows=ROWS)
def test_the_areas_match_scikit_learn_and_exact_arithmetic(rows: list[tuple[bool, float]]) -> None:
    y, p = _columns(rows)
    found = Ranking.of(y, p, HOST)
    assert found.roc_area() == pytest.approx(sk.roc_auc_score(y, p), rel=1e-12)
    assert found.average_precision() == pytest.approx(sk.average_precision_score(y, p), rel=1e-12)
    pairs = [Fraction(int(a > b) + int(a >= b), 2) for a in p[y].tolist() for b in p[~y].tolist()]
    assert found.roc_area() == float(sum(pairs) / len(pairs))


@examples(40)
@given(rows=ROWS)
def test_the_curves_match_scikit_learn(rows: list[tuple[bool, float]]) -> None:
    y, p = _columns(rows)
    found = curves("binary", y, p, backend=HOST)
    fpr, tpr, _ = sk.roc_curve(y, p)
    assert (found.roc[0].x, found.roc[0].y) == (fpr.tolist(), tpr.tolist())
    precision, recall, _ = sk.precision_recall_curve(y, p, drop_intermediate=True)
    assert found.precision_recall[0].x == recall[::-1].tolist()
    assert found.precision_recall[0].y == precision[::-1].tolist()


@examples(20)
@given(rows=ROWS, data=st.data())
def test_the_order_of_the_rows_changes_nothing(rows: list[tuple[bool, float]], data: Any) -> None:
    y, p = _columns(rows)
    other = np.array(data.draw(st.permutations(range(len(rows)))))
    one, two = Ranking.of(y, p, HOST), Ranking.of(y[other], p[other], HOST)
    assert (one.roc_area(), one.average_precision()) == (two.roc_area(), two.average_precision())
    found = [curves("binary", a, b, backend=HOST) for a, b in ((y, p), (y[other], p[other]))]
    assert found[0] == found[1]


def test_cumulative_counts_by_score_match_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y, p = rng.random(5_000) < 0.3, rng.random(5_000).round(3)
    found = Ranking.of(y, p, HOST)
    _, misses, _, hits, scores = sk.confusion_matrix_at_thresholds(y, p)
    np.testing.assert_array_equal(found.scores, scores)
    np.testing.assert_array_equal(found.hits[1:], hits)
    np.testing.assert_array_equal(found.misses[1:], misses)


def test_a_bin_of_a_calibration_curve_takes_its_share_of_rows_with_one_probability() -> None:
    """Twelve rows in ten bins: two of 2 rows, eight of 1; nine have one probability, three of them are positive."""
    p = np.array([0.1] + [0.4] * 9 + [0.8, 0.9])
    y = np.array([0] + [1, 0, 0] * 3 + [0, 1])
    points = curves("binary", y, p, backend=HOST).calibration[0]
    assert points.x == pytest.approx([0.25] + [0.4] * 7 + [0.8, 0.9])
    assert points.y == pytest.approx([1 / 6] + [1 / 3] * 7 + [0.0, 1.0])


def test_metrics_of_a_class_of_all_rows_or_none_are_undefined() -> None:
    for y in (np.ones(3, bool), np.zeros(3, bool), np.ones(0, bool)):
        assert not Ranking.of(y, np.linspace(0, 1, len(y)), HOST).is_defined
