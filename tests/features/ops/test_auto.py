"""Default treatment of columns that no op selects, in both views."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

from gpupipe.errors import ConfigError


def test_dense_has_no_null_even_if_training_had_none(fit, people) -> None:
    made = fit(people, y=np.arange(400) % 2)
    assert np.isfinite(made.training.to_numpy()).all()
    assert (made.training.dtypes == np.float32).all()
    nulls = pd.DataFrame({name: pd.array([None] * 3, dtype=people[name].dtype) for name in people})
    served = made.serve(nulls)
    assert np.isfinite(served.to_numpy()).all()
    complete = fit(people.dropna().reset_index(drop=True))
    assert np.isfinite(complete.serve(nulls).to_numpy()).all()


def test_codes_keep_nulls_and_ids(fit, people) -> None:
    made = fit(people, view="codes")
    np.testing.assert_array_equal(np.isnan(made.training["age"]), people["age"].isna())
    np.testing.assert_array_equal(made.training["plan"] == 0, people["plan"].isna())
    np.testing.assert_array_equal(np.isnan(made.training["active"]), people["active"].isna())
    np.testing.assert_allclose(made.training["income"], people["income"], rtol=1e-6)
    assert {made.names[i]: n for i, n in made.features.categorical.items()} == {"plan": 6, "city": 43}


def test_numbers_are_imputed_flagged_and_standardized(fit, people) -> None:
    got = fit(people).training
    filled = people["age"].fillna(people["age"].median()).to_numpy()[:, None]
    np.testing.assert_allclose(got["age"], StandardScaler().fit_transform(filled)[:, 0], rtol=1e-5, atol=1e-6)
    assert got["age_missing"].tolist() == people["age"].isna().astype(int).tolist()
    assert "income_missing" not in got
    assert got["active"].notna().all()


def test_times_are_calendar_parts_for_trees_and_cyclic_otherwise(fit, people) -> None:
    codes = fit(people[["since"]], view="codes").names
    assert codes == [f"since_{part}" for part in ("elapsed_days", "month", "day", "weekday", "hour")]
    dense = fit(people[["since"]]).names
    assert dense == [
        "since_elapsed_days", "since_is_weekend", "since_weekday_sin", "since_weekday_cos",
        "since_hour_sin", "since_hour_cos", "since_month_sin", "since_month_cos",
    ]  # fmt: skip


def test_days_without_a_time_of_day_have_no_hour(fit) -> None:
    frame = {"day": pd.date_range("2024-01-01", periods=20)}
    assert not [name for view in ("codes", "dense") for name in fit(frame, view=view).names if "hour" in name]


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_features_of_ops_precede_those_of_unselected_columns(fit, people, view: str) -> None:
    made = fit(people, [{"min_max": "income"}, {"frequency_encode": "city"}], view=view)
    assert made.names[:2] == ["income", "city_frequency"]
    order = list(dict.fromkeys(made.features.lineage[name][0] for name in made.names[2:]))
    assert order == ["age", "plan", "since", "active"]


def test_text_is_dropped_with_a_warning(fit) -> None:
    frame = {"note": [f"free text {i}" for i in range(200)], "x": np.arange(200.0)}
    made = fit(frame)
    assert made.names == ["x"]
    assert [text.partition(";")[0] for text in made.features.warnings] == ["text column 'note' dropped"]
    with pytest.raises(ConfigError, match="no feature remains"):
        fit({"note": frame["note"]})


def test_an_op_on_text_advises_how_to_use_it(fit) -> None:
    frame = {"note": [f"free text {i}" for i in range(200)], "x": np.arange(200.0)}
    with pytest.raises(ConfigError, match=r"(?s)'note' is text.*schema: \{note: categorical\}"):
        fit(frame, [{"one_hot": "note"}])
    assert fit(frame, [{"hash_bucket": "note"}], schema={"note": "categorical"}).names == ["note", "x"]


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_empty_columns_do_not_matter(fit, view: str) -> None:
    frame = {
        "x": pd.array([None] * 4, "Float64"),
        "c": pd.array([None] * 4, "string"),
        "b": pd.array([None] * 4, "boolean"),
        "t": pd.Series([pd.NaT] * 4),
        "n": [None] * 4,
        "y": [1.0, 2.0, 3.0, 4.0],
    }
    made = fit(frame, view=view)
    alone = fit({"y": frame["y"]}, view=view)
    np.testing.assert_array_equal(made.training["y"], alone.training["y"])
    if view == "dense":
        assert np.isfinite(made.training.to_numpy()).all()


@pytest.mark.parametrize("view", ["codes", "dense"])
def test_a_single_row_is_enough(fit, people, view: str) -> None:
    made = fit(people.iloc[:1], view=view)
    assert len(made.training) == 1
    assert made.serve(people).shape == (400, len(made.names))


def test_names_that_look_like_selectors_are_names(fit) -> None:
    frame = {"@odd": [1.0, None, 3.0], "!x": [1.0, None, 5.0], "a*": [0.5, None, 2.5], "ab": [1.0, 2.0, 4.0]}
    made = fit(frame)
    assert made.names == ["@odd", "@odd_missing", "!x", "!x_missing", "a*", "a*_missing", "ab"]


def test_a_column_that_has_the_name_of_a_new_one_is_not_lost_silently(fit) -> None:
    frame = {"x": [1.0, None, 3.0], "x_missing": [7.0, 8.0, 9.0]}
    with pytest.raises(ConfigError, match=r"(?s)two features are named 'x_missing'.*rename or drop"):
        fit(frame)
