"""categorify: code 0 for null, 1 for unseen, 2 for rare, and the levels in order from 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import OrdinalEncoder

import gpupipe as gp
from gpupipe.errors import ConfigError
from tests.examples import examples

LEVELS = st.lists(st.sampled_from(["c", "a", "b", "z", "é", None]), min_size=1, max_size=40)


def strings(levels: list) -> pd.DataFrame:
    return pd.DataFrame({"c": pd.array(levels, dtype="string")})


@examples(50)
@given(levels=LEVELS, served=LEVELS, k=st.integers(1, 4))
def test_ids_are_those_that_are_documented_at_fit_and_at_serve(fit, levels: list, served: list, k: int) -> None:
    made = fit(strings(levels), [{"categorify": {"columns": "c", "min_frequency": k}}])
    counts = pd.Series(levels, dtype="string").value_counts()
    places = {level: 3 + i for i, level in enumerate(sorted(counts.index[counts >= k], key=str.encode))}

    def expected(rows: list) -> list[int]:
        return [0 if v is None else places.get(v, 2 if v in counts else 1) for v in rows]

    assert made.training["c"].tolist() == expected(levels)
    assert made.serve(strings(served))["c"].tolist() == expected(served)
    assert made.features.categorical == {0: 3 + len(places)}


def test_whole_numbers_are_in_the_order_of_numbers(fit) -> None:
    made = fit({"c": ["10", "9", "-2"]}, [{"categorify": "c"}])
    assert made.training["c"].tolist() == [5, 4, 3]


def test_levels_after_max_categories_are_rare(fit) -> None:
    made = fit(strings(["a", "b", "b", "c", "c"]), [{"categorify": {"columns": "c", "max_categories": 2}}])
    assert made.training["c"].tolist() == [2, 3, 3, 4, 4]


def test_what_was_learned_can_be_read(fit) -> None:
    made = fit(strings(["a", "b", "b"]), [{"categorify": {"columns": "c", "max_categories": 1}}])
    assert made.features.states == ({"op": "Categorify", "column": "c", "levels": ["b"]},)


def test_ids_by_frequency_are_those_of_pandas(fit) -> None:
    levels = ["b", "a", "c", "c", "b", "c", "d"]
    made = fit(strings(levels), [{"categorify": {"columns": "c", "order": "frequency", "max_categories": 3}}])
    by_count = pd.Series(levels).groupby(levels).size().sort_values(ascending=False, kind="stable").index[:3]
    assert made.training["c"].tolist() == [3 + list(by_count).index(v) if v in by_count else 2 for v in levels]


@examples(30)
@given(a=LEVELS, served=LEVELS, k=st.integers(1, 3))
def test_a_level_has_one_id_in_all_columns_of_a_shared_vocabulary(fit, a: list, served: list, k: int) -> None:
    b = [None if v is None else v + v for v in a[1:]] + ["a"]
    frame = pd.DataFrame({"a": pd.array(a, "string"), "b": pd.array(b, "string")})
    op = {"categorify": {"columns": ["a", "b"], "vocabulary": "shared", "min_frequency": k}}
    made = fit(frame, [op])
    counts = pd.Series([*a, *b], dtype="string").value_counts()
    place = {v: 3 + i for i, v in enumerate(sorted(counts.index[counts >= k], key=str.encode))}
    for name in "ab":
        new = pd.DataFrame({"a": pd.array(served, "string"), "b": pd.array(served, "string")})
        assert made.serve(new)[name].tolist() == [0 if v is None else place.get(v, 1) for v in served]
        assert made.training[name].tolist() == [0 if pd.isna(v) else place.get(v, 1) for v in frame[name]]
    assert made.features.categorical == dict.fromkeys((0, 1), 3 + len(place))


@examples(30)
@given(a=LEVELS, served=LEVELS)
def test_given_levels_are_those_of_scikit_learn_whether_rows_have_them_or_not(fit, a: list, served: list) -> None:
    order = ["z", "new", "a", "c"]
    ops = [{"categorify": {"columns": "c", "levels": order, "ordered": True}}]
    made = fit(strings(a), ops, view="codes", schema={"c": "categorical"})
    frame = pd.DataFrame({"c": pd.Series([*served, "new"], dtype=object)})
    unknown = {"handle_unknown": "use_encoded_value", "unknown_value": np.nan, "encoded_missing_value": np.nan}
    reference = OrdinalEncoder(categories=[[*order]], **unknown).fit(pd.DataFrame({"c": order}))
    got = made.serve(strings([*served, "new"]))["c"]
    np.testing.assert_array_equal(got, reference.transform(frame)[:, 0])
    assert made.features.categorical == {}
    ids = fit(strings(a), [{"categorify": {"columns": "c", "levels": order}}], schema={"c": "categorical"})
    expected = [0 if v is None else 3 + order.index(v) if v in order else 1 for v in [*served, "new"]]
    assert ids.serve(strings([*served, "new"]))["c"].tolist() == expected


def test_given_levels_have_the_values_of_a_column_of_numbers_and_of_flags(fit) -> None:
    frame = pd.DataFrame({"n": pd.Categorical([1, 3, 2]), "flag": [True, False, True]})
    ops = [
        {"categorify": {"columns": "n", "levels": [3, 1, "02"]}},
        {"categorify": {"columns": "flag", "levels": [True, False]}},
    ]
    made = fit(frame, ops, schema={"n": "categorical"})
    assert made.training["n"].tolist() == [4, 3, 5] and made.training["flag"].tolist() == [3, 4, 3]


def test_all_other_levels_are_hashed_and_imputed_nulls_have_the_id_of_their_level(fit) -> None:
    op = {"columns": "c", "max_categories": 2, "order": "frequency", "buckets": 5}
    made = fit(strings(["b", "b", "a", "a", "b", "c"]), [{"categorify": op}])
    got = made.serve(strings(["b", "a", "c", "new", None, "new"]))["c"]
    assert got[:2].tolist() == [3, 4] and got[4] == 0 and got[3] == got[5]
    assert set(got[[2, 3]]) <= set(range(5, 10)) and made.features.categorical == {0: 10}
    hashed = fit(strings(["b"]), [{"hash_bucket": {"columns": "c", "buckets": 5}}]).serve(strings(["c", "new"]))["c"]
    assert got[[2, 3]].tolist() == (hashed + 2).tolist()  # after two levels
    filled = [{"impute": {"columns": "c", "strategy": "most_frequent"}}, {"categorify": op}]
    assert fit(strings(["b", "b", "a", None]), filled).serve(strings([None, "b"]))["c"].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"levels": ["a"], "order": "frequency"}, "levels are given: remove order"),
        ({"levels": ["a", "a"]}, "levels: expected different ones; got 'a', 'a'"),
        ({"ordered": True}, "ordered: true requires levels"),
        ({"levels": ["a"], "ordered": True, "buckets": 3}, "requires levels, in order, and no buckets"),
    ],
)
def test_settings_that_contradict_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        gp.FeatureProgram([{"categorify": {"columns": "c", **settings}}]).fit(strings(["a", "b"]))


def test_a_column_that_another_op_made_has_no_further_levels(fit) -> None:
    frame = pd.DataFrame({"c": ["a", "b"], "d": ["x", "y"]})
    ops: list[Any] = [{"cross": {"columns": ["c", "d"], "as": "cd"}}, {"categorify": {"columns": "cd", "buckets": 3}}]
    with pytest.raises(ConfigError, match="takes input columns; 'cd' is made by another op"):
        fit(frame, ops)


def test_shared_and_hashed_ids_are_the_same_on_every_road(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.choice(list("abcd"), 80), "b": rng.choice(list("cdefg"), 80)})
    y = frame.a.map(ord) + 10.0 * frame.b.map(ord)
    op = {"columns": ["a", "b"], "vocabulary": "shared", "max_categories": 5, "buckets": 4}
    settings: Any = {"split": {"test_size": 0.2}, "report": {"enabled": False}}
    pipe = gp.Pipeline(frame.assign(y=y), target="y", features=[{"categorify": op}], models=["xgboost"], **settings)
    model = gp.load_model(pipe.run(tmp_path / "run", quiet=True).path)
    new = pd.DataFrame({"a": ["a", "g", "zz", None], "b": ["d", "a", "q", "c"]})
    expected = np.asarray(model.predict(new))
    scorer = model.scorer()
    roads = {
        "scorer": [scorer.predict(dict(row)) for _, row in new.iterrows()],
        "rows": [model.predict(new.iloc[[i]])[0] for i in range(len(new))],
        "dask": model.predict(dd.from_pandas(new, npartitions=2)).compute(),
    }
    for road, found in roads.items():
        np.testing.assert_array_equal(np.asarray(found), expected, err_msg=road)
    with pytest.raises(ConfigError, match="categorify with given or shared levels, or buckets, of"):
        model.to_onnx(tmp_path / "m.onnx")
