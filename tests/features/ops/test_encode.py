"""encode: categories in the form that suits each view."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpupipe.errors import ConfigError

FEW = [f"l{i % 5}" for i in range(300)]
MANY = [f"m{i % 100:03d}" for i in range(300)]
TARGET = np.arange(300) % 2


def test_codes_are_ids_and_dense_is_one_hot(fit) -> None:
    frame = {"c": [*FEW[:-1], None]}
    codes = fit(frame, [{"encode": "c"}], y=TARGET, view="codes")
    assert codes.names == ["c"]
    assert set(codes.training["c"]) == {0, 3, 4, 5, 6, 7}
    assert codes.features.categorical == {0: 8}
    dense = fit(frame, [{"encode": "c"}], y=TARGET)
    assert dense.names == [*(f"c=l{i}" for i in range(5)), "c=(null)"]
    assert dense.features.categorical == {}


def test_embedding_has_the_numbers_of_dense_first_and_the_ids_of_codes_last(fit) -> None:
    numbers = np.arange(300.0)
    numbers[7] = np.nan
    frame = {"c": FEW, "x": numbers, "d": FEW[::-1]}
    embedding, dense = (fit(frame, [{"encode": ["c", "d"]}], y=TARGET, view=view) for view in ("embedding", "dense"))
    codes = fit(frame, [{"encode": ["c", "d"]}], y=TARGET, view="codes")
    assert embedding.names == ["x", "x_missing", "c", "d"]
    assert embedding.features.categorical == {2: 8, 3: 8}
    pd.testing.assert_frame_equal(embedding.training[["x", "x_missing"]], dense.training[["x", "x_missing"]])
    pd.testing.assert_frame_equal(embedding.training[["c", "d"]], codes.training[["c", "d"]])


LIMITS = [("codes", {"max_levels": 50}), ("embedding", {"max_levels": 50}), ("dense", {"max_one_hot": 50})]


@pytest.mark.parametrize(("view", "limit"), LIMITS)
def test_long_columns_are_target_encoded_or_without_a_target_frequency_encoded(fit, view: str, limit: dict) -> None:
    op = [{"encode": {"columns": "c", **limit}}]
    assert fit({"c": MANY}, op, y=TARGET, view=view).names == ["c_target"]
    assert fit({"c": MANY}, op, view=view).names == ["c_frequency"]
    at_the_limit = [{"encode": {"columns": "c", **dict.fromkeys(limit, 100)}}]
    assert fit({"c": MANY}, at_the_limit, view=view).names != ["c_frequency"]


def test_folds_and_smoothing_match_target_encode(fit) -> None:
    settings = {"columns": "c", "folds": 3, "smoothing": 7}
    op = fit({"c": MANY}, [{"encode": {**settings, "max_one_hot": 5}}], y=TARGET)
    direct = fit({"c": MANY}, [{"target_encode": settings}], y=TARGET)
    pd.testing.assert_frame_equal(op.training, direct.training)


def test_a_number_is_not_a_category(fit) -> None:
    with pytest.raises(ConfigError, match="encode takes categorical columns; 'x' is numeric"):
        fit({"x": [1.0]}, [{"encode": "x"}])
