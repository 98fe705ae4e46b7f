"""Sampling errors of the bootstrap, compared with formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpupipe.metrics.bootstrap import MOST_RESAMPLED, class_strata, sampling_errors


def error_of_mean(values: np.ndarray, strata: np.ndarray | None = None, *groups: np.ndarray, **options: Any) -> float:
    strata = class_strata(values, has_classes=False) if strata is None else strata
    mean = {"mean": float(values.mean())}
    errors = sampling_errors(lambda rows: {"mean": values[rows].mean()}, mean, strata, *groups, **options)
    return float(np.std(errors["mean"]))


@pytest.mark.parametrize("n", [400, 4 * MOST_RESAMPLED])
def test_the_error_of_a_mean_is_that_of_the_formula(n: int) -> None:
    values = np.random.default_rng(5).normal(size=n)
    assert error_of_mean(values, n_resamples=400) == pytest.approx(values.std() / np.sqrt(n), rel=0.15)


def test_strata_keep_their_size() -> None:
    classes = np.repeat([0, 1], [30, 70])
    assert error_of_mean(classes.astype(float), class_strata(classes, has_classes=True)) == pytest.approx(0, abs=1e-12)
    both = np.column_stack([classes, np.tile([0, 1], 50)])
    assert len(np.unique(class_strata(both, has_classes=True))) == 4


@pytest.mark.parametrize("n_groups", [100, MOST_RESAMPLED])
def test_rows_of_a_group_are_drawn_together(n_groups: int) -> None:
    """Ten equal rows for each group tell no more than one."""
    generator = np.random.default_rng(5)
    of_group = generator.normal(size=n_groups)
    groups = generator.permutation(np.repeat(np.arange(n_groups), 10)) + 7
    values = of_group[groups - 7]
    found = error_of_mean(values, None, groups, n_resamples=300)
    assert found == pytest.approx(of_group.std() / np.sqrt(n_groups), rel=0.15)
    assert error_of_mean(values, n_resamples=300) == pytest.approx(found / np.sqrt(10), rel=0.2)
