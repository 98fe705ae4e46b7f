"""Columns whose values merge in float32: centers that keep them apart, and warnings, compared with pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.features.statistics import numbers

SECONDS = 1.7e9 + np.arange(600) * 0.1


def warnings_of(fitted: Any) -> str:
    return "\n".join(fitted.features.warnings)


@pytest.mark.parametrize(
    "ops", [[], [{"impute": "t"}], [{"clip": {"columns": "t", "lower": 1.7e9, "upper": 1.7e9 + 90}}]]
)
@pytest.mark.parametrize("view", ["codes", "dense"])
def test_a_column_is_centred_where_its_values_would_merge(fit: Any, ops: Any, view: str) -> None:
    shuffled = np.random.default_rng(1).permutation(SECONDS)
    fitted = fit({"t": [*shuffled, np.nan]}, ops, view=view)
    served = fitted.serve({"t": SECONDS})["t"]
    assert (served.diff()[1:] > 0).all()
    if view == "codes" or ops:
        np.testing.assert_allclose(served, SECONDS - np.median(SECONDS), atol=1e-5)
        assert "its 600 distinct values become 1 in float32 (99.8% fewer)" in warnings_of(fitted)
        state = next(state for state in fitted.features.states if state["op"] == "center")
        assert state == {"op": "center", "column": "t", "center": np.median(SECONDS)}


@pytest.mark.parametrize(
    "values",
    [
        np.arange(1e9, 1e9 + 500),  # as the microseconds or ids of a table
        np.array([2**24 + i for i in range(500)]),
        1e8 + np.arange(500) / 100,
        np.array([1_700_000_000_000_000 + i for i in range(500)]),
        np.array([0.0, *(1.7e9 + np.arange(499))]),  # with an outlier, a middle of the range would not help
    ],
)
def test_integers_and_offsets_keep_all_their_values(fit: Any, values: Any) -> None:
    fitted = fit({"x": np.random.default_rng(3).permutation(values)}, view="codes")
    assert fitted.serve({"x": values})["x"].nunique() == len(values)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(2000.0, 2500.0),  # exact in float32
        np.random.default_rng(2).normal(size=500),
        np.round(np.random.default_rng(2).uniform(0, 1000, 500), 2),
        np.array([1.5, np.nan] * 50),
        np.array([np.nan] * 50 + [1.0]),
    ],
)
def test_other_columns_stay_as_they_are(fit: Any, values: Any) -> None:
    fitted = fit({"x": values}, view="codes")
    np.testing.assert_array_equal(fitted.training["x"], values.astype(np.float32))
    assert not fitted.features.warnings


@pytest.mark.parametrize(
    "op",
    [
        {"log1p": "x"},
        {"polynomial": {"columns": "x", "degree": 2}},
        {"expression": {"half": "x / 2"}},
    ],
)
def test_what_cannot_be_centred_is_reported(fit: Any, op: Any) -> None:
    fitted = fit({"x": SECONDS}, [op])
    assert "column 'x': its 600 distinct values become 1 in float32 (99.8% fewer) for the feature" in warnings_of(
        fitted
    )


def test_a_wide_range_is_reported_with_what_the_center_leaves(fit: Any) -> None:
    wide = np.concatenate([np.arange(300), 2.0**40 + np.arange(300)])
    assert "its 600 distinct values become 301 in float32 (49.8% fewer) for the feature" in warnings_of(
        fit({"x": wide}, view="codes")
    )


@pytest.mark.parametrize("op", ["standardize", "min_max", "robust_scale"])
def test_ops_that_center_lose_nothing_and_say_nothing(fit: Any, op: str) -> None:
    fitted = fit({"t": SECONDS}, [{op: "t"}])
    assert fitted.training["t"].nunique() == 600
    assert not fitted.features.warnings


def test_a_difference_of_two_merging_columns_is_exact(fit: Any) -> None:
    frame = pd.DataFrame({"start": SECONDS, "end": SECONDS + np.linspace(1, 2, 600)})
    op = {"arithmetic": {"difference": ["end", "start"], "as": "length"}}
    found = fit(frame, [op], view="codes").training["length"]
    np.testing.assert_allclose(found, frame.end - frame.start, rtol=1e-5)


def test_large_tables_are_sampled(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "SAMPLE_ROWS", 100)
    fitted = fit({"t": SECONDS}, view="codes")
    assert "become 1 in float32" in warnings_of(fitted)
    np.testing.assert_allclose(fitted.training["t"], SECONDS - np.median(SECONDS), atol=1e-5)


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_means_of_a_target_with_an_offset_stay_apart(fit: Any, view: str) -> None:
    level = np.arange(200) % 5
    y = 1.7e9 + level * 0.37
    frame = {"c": [f"level {i}" for i in level]}
    ops = [{"target_encode": {"columns": "c", "folds": 2, "smoothing": 0}}]
    fitted = fit(frame, ops, y=y, view=view)
    served = fitted.serve(frame).filter(like="target").iloc[:, 0]
    np.testing.assert_allclose(served - served[0], y - y[0], atol=1e-5)
    assert "float32 would lose the differences of its values" in warnings_of(fitted)


def test_means_of_other_targets_are_in_their_units(fit: Any) -> None:
    level = np.arange(200) % 5
    ops = [{"target_encode": {"columns": "c", "folds": 2, "smoothing": 0}}]
    fitted = fit({"c": [f"level {i}" for i in level]}, ops, y=2000.0 + level * 0.37)
    np.testing.assert_allclose(fitted.serve({"c": ["level 3"]}).iloc[0, 0], 2001.11, rtol=1e-6)
    assert not fitted.features.warnings
