"""Corrupt and malicious arrays of CatBoost models are rejected."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpupipe.models import MODELS, FitContext, fit
from gpupipe.models.catboost.trees import DTYPES, read_trees
from gpupipe.models.files.description import Description

EXPECTED = Description("binary", ("a", "b"), 2, (0, 1))
Arrays = dict[str, Any]


@pytest.fixture(scope="module")
def arrays(backend: Any) -> Arrays:
    """The arrays of a model with numbers, one-hot splits and statistics."""
    rng = np.random.default_rng(0)
    X = np.asfortranarray(np.stack([rng.normal(size=300), rng.integers(0, 30, 300)], axis=1), np.float32)
    y = (X[:, 1] % 2 + rng.normal(size=300) > 0.5).astype(np.int64)
    context = FitContext(backend, "binary", 0, 2, {1: 30}, ("a", "b"))
    found: Arrays = fit(MODELS.get("catboost")(iterations=3, depth=3), X, y, context).estimator.trees.arrays
    assert all(len(found[name]) for name in DTYPES if not name.startswith("category"))
    return found


def stored(arrays: Arrays) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def with_value(name: str, at: Any, value: Any) -> Callable[[Arrays], Arrays]:
    def change(arrays: Arrays) -> Arrays:
        changed = arrays[name].copy()
        changed[at] = value
        return arrays | {name: changed}

    return change


def test_valid_arrays_are_read_unchanged(arrays: Arrays) -> None:
    found = read_trees(stored(arrays), EXPECTED).arrays
    assert found.keys() == arrays.keys()
    for name, values in found.items():
        np.testing.assert_array_equal(values, arrays[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {k: v for k, v in a.items() if k != "leaf"}, "expected the arrays"),
        (lambda a: a | {"leaf": a["leaf"].astype("f4")}, "leaf has the wrong type"),
        (lambda a: a | {"leaf": a["leaf"][:-1]}, "leaf has the wrong shape"),
        (lambda a: a | {"leaf": np.hstack([a["leaf"]] * 3)}, "leaf has the wrong shape"),
        (lambda a: a | {"bias": np.zeros(3)}, "3 outputs"),
        (lambda a: a | {"importance": np.zeros(5)}, "columns"),
        (lambda a: a | {"is_log": np.array([True])}, "does not match the task"),
        (lambda a: a | {"number_border": a["number_border"][:-1]}, "differ in length"),
        (lambda a: a | {"tree_test": a["tree_test"][:-1]}, "tree_test has the wrong length"),
        (lambda a: a | {"statistic_value": a["statistic_value"][:-1]}, "statistic_value has the wrong length"),
        (lambda a: a | {"table_hash": a["table_hash"][::-1].copy()}, "ascending order"),
        (with_value("number_column", 0, 2), "number_column is out of range"),
        (with_value("number_column", 0, -1), "number_column is out of range"),
        (with_value("number_border", 0, np.nan), "not a number"),
        (with_value("part", 0, 99), "part is out of range"),
        (with_value("combination_start", 0, 1), "combination_start is out of range"),
        (with_value("table_start", -1, 1 << 62), "table_start is out of range"),
        (with_value("table_combination", 0, -1), "table_combination is out of range"),
        (with_value("statistic_table", 0, 99), "statistic_table is out of range"),
        (with_value("test_statistic", 0, -1), "test_statistic is out of range"),
        (with_value("tree_depth", 0, 17), "tree_depth is out of range"),
        (with_value("tree_depth", 0, -1), "tree_depth is out of range"),
        (with_value("tree_test", 0, 9999), "tree_test is out of range"),
        (with_value("leaf", (0, 0), np.inf), "not finite"),
    ],
)
def test_a_value_that_gpupipe_cannot_have_written_is_named(
    change: Callable[[Arrays], Arrays], message: str, arrays: Arrays
) -> None:
    with pytest.raises(ValueError, match=message):
        read_trees(stored(change(arrays)), EXPECTED)
