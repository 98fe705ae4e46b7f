from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import confusion, curves, residuals
from gpupipe.metrics.curves import MAX_POINTS

HOST = CpuBackend()


def test_confusion_matches_scikit_learn(binary: Any, multiclass: Any) -> None:
    y, guess = binary
    assert confusion("binary", y, guess, 0.3, backend=HOST) == sk.confusion_matrix(y, guess >= 0.3).tolist()
    y, guess = multiclass
    expected = sk.confusion_matrix(y, guess.argmax(axis=1)).tolist()
    assert confusion("multiclass", y, guess, n_classes=3, backend=HOST) == expected


def test_a_class_without_rows_keeps_its_place_in_the_confusion(multiclass: Any) -> None:
    y, guess = multiclass
    part = guess[y == 0]
    counts = confusion("multiclass", y[y == 0], part, n_classes=3, backend=HOST)
    assert np.shape(counts) == (3, 3)
    assert np.sum(counts[1:]) == 0


def test_thinned_curves_enclose_the_area_of_the_full_ones() -> None:
    rng = np.random.default_rng(0)
    y = rng.random(20_000) < 0.3
    p = 1 / (1 + np.exp(-(rng.normal(size=20_000) + 1.5 * y)))
    found = curves("binary", y, p, backend=HOST)
    roc, recall = found.roc[0], found.precision_recall[0]
    assert max(len(roc.x), len(recall.x)) <= MAX_POINTS
    assert (roc.x[0], roc.y[0], roc.x[-1], roc.y[-1]) == (0, 0, 1, 1)
    assert sk.auc(roc.x, roc.y) == pytest.approx(sk.roc_auc_score(y, p), abs=1e-3)
    assert sk.auc(recall.x, recall.y) == pytest.approx(sk.average_precision_score(y, p), abs=3e-3)


def test_calibration_points_compare_probability_with_the_share_of_positives(binary: Any) -> None:
    y, guess = binary
    points = curves("binary", y, guess, backend=HOST).calibration[0]
    assert len(points.x) == 10
    assert np.mean(points.y) == pytest.approx(y.mean(), abs=0.01)
    assert np.all(np.diff(points.x) >= 0)


def test_each_of_several_classes_has_its_curves_and_an_absent_one_has_none(multiclass: Any) -> None:
    y, guess = multiclass
    assert [points.class_code for points in curves("multiclass", y, guess, 3, backend=HOST).roc] == [0, 1, 2]
    part = guess[y != 2]
    assert [points.class_code for points in curves("multiclass", y[y != 2], part, 3, backend=HOST).roc] == [0, 1]
    assert curves("binary", np.ones(3), np.array([0.1, 0.2, 0.3]), backend=HOST).roc == []


def test_gains_and_the_rows_at_the_top_are_those_of_sorted_rows() -> None:
    rng = np.random.default_rng(1)
    y = (rng.random(3_000) < 0.2).astype(float)
    p = 1 / (1 + np.exp(-(rng.normal(size=3_000) + 1.5 * y)))
    found = curves("binary", y, p, backend=HOST)
    sorted_y = pd.Series(y)[np.argsort(-p)].reset_index(drop=True)
    assert [(top.n_rows, top.hits) for top in found.top] == [
        (n, sorted_y.head(n).sum()) for n in (100, 30, 150, 300, 600, 1500)
    ]
    share = np.append(0, np.cumsum(sorted_y) / y.sum())
    (gains,) = found.gains
    assert (gains.x[0], gains.y[0], gains.x[-1], gains.y[-1]) == (0, 0, 1, 1)
    assert np.interp(np.linspace(0, 1, 3_001), gains.x, gains.y) == pytest.approx(share, abs=0.01)


def test_rows_that_share_a_probability_count_in_proportion_at_the_top() -> None:
    y = np.repeat([1.0, 0.0, 1.0, 0.0], [40, 10, 100, 850])
    p = np.repeat([0.9, 0.2], [50, 950])  # the other 50 of the first 100 are drawn from 950 rows with 100 positives
    top = curves("binary", y, p, backend=HOST).top[0]
    assert top.n_rows == 100
    assert top.hits == pytest.approx(40 + 50 * 100 / 950)
    assert curves("binary", y[::20], p[::20], backend=HOST).top == []  # 50 rows: a tenth is too few


def test_residuals_count_every_row_and_sample_some(regression: Any) -> None:
    y, guess = regression
    found = residuals(y, guess, sample=100, bins=20, backend=HOST)
    assert len(found.y_true) == len(found.y_pred) == 100
    assert sum(found.counts) == len(y)
    assert len(found.edges) == 21
    assert found.mean == pytest.approx(np.mean(y - guess))
    assert found.quantiles["0.5"] == pytest.approx(np.median(y - guess))
    assert found.errors["0.5"] == pytest.approx(sk.median_absolute_error(y, guess))
    assert found.errors["0.9"] == pytest.approx(pd.Series(y - guess).abs().quantile(0.9))
    assert found.constant_error == pytest.approx(sk.median_absolute_error(y, np.full(len(y), np.median(y))))
