"""Standard errors of the bootstrap, compared with formulas."""

from __future__ import annotations

import numpy as np
import pytest

from gpupipe.pipeline.bootstrap import MOST_RESAMPLED, standard_errors


def mean_of(values: np.ndarray):
    return lambda rows: {"mean": float(values[rows].mean())}


@pytest.mark.parametrize("n", [400, 4 * MOST_RESAMPLED])
def test_the_error_of_a_mean_is_that_of_the_formula(n: int) -> None:
    values = np.random.default_rng(5).normal(size=n)
    found = standard_errors(mean_of(values), np.zeros(n, np.int64), n_resamples=400)
    assert found["mean"] == pytest.approx(values.std() / np.sqrt(n), rel=0.15)


def test_strata_keep_their_size() -> None:
    strata = np.repeat([0, 1], [30, 70])
    assert standard_errors(mean_of(strata.astype(float)), strata)["mean"] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("n_groups", [100, MOST_RESAMPLED])
def test_rows_of_a_group_are_drawn_together(n_groups: int) -> None:
    """Ten equal rows for each group tell no more than one."""
    generator = np.random.default_rng(5)
    of_group = generator.normal(size=n_groups)
    groups = generator.permutation(np.repeat(np.arange(n_groups), 10)) + 7
    values = of_group[groups - 7]
    found = standard_errors(mean_of(values), np.zeros(len(groups), np.int64), groups, n_resamples=300)
    assert found["mean"] == pytest.approx(of_group.std() / np.sqrt(n_groups), rel=0.15)
    alone = standard_errors(mean_of(values), np.zeros(len(groups), np.int64), n_resamples=300)
    assert alone["mean"] == pytest.approx(found["mean"] / np.sqrt(10), rel=0.2)
