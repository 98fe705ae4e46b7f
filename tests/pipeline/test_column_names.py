"""Names of columns on every road: numbers, tuples, ``@``, blanks, normal forms; and categories of integers."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

import gpupipe as gp

NFC, NFD = (unicodedata.normalize(form, "größe") for form in ("NFC", "NFD"))
RNG = np.random.default_rng(4)
CODES = RNG.integers(1, 5, 240)
ROWS = pd.DataFrame(
    {
        NFC: RNG.normal(size=240),
        " x": RNG.normal(size=240),
        "a[1]<": RNG.normal(size=240),
        "code": pd.Categorical(CODES),
        "band": pd.cut(RNG.uniform(0, 3, 240), [0, 1, 2, 3]),
        "@timestamp": range(240),
        "y": np.isin(CODES, [1, 3]).astype(int),
    }
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    settings: dict[str, Any] = {"target": "y", "drop": "@timestamp", "models": ["logistic_regression"]}
    run = gp.Pipeline(ROWS, report={"enabled": False}, **settings).run(
        tmp_path_factory.mktemp("names") / "run", quiet=True
    )
    assert run.metrics["roc_auc"] > 0.99  # the codes are levels: their order says nothing
    assert "@timestamp" not in run.model.inputs
    return run.model


def _csv(frame: pd.DataFrame, folder: Path) -> Any:
    frame.astype({"band": str}).to_csv(folder / "t.csv", index=False)
    return str(folder / "t.csv")


def _parquet(frame: pd.DataFrame, folder: Path) -> Any:
    frame.astype({"band": str}).to_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


ROADS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "frame": lambda frame, folder: frame,
    "plain values": lambda frame, folder: frame.assign(code=CODES, band=frame.band.astype(str)),
    "dataset": lambda frame, folder: pyarrow.dataset.dataset(pa.Table.from_pandas(frame.astype({"band": str}))),
    "dict": lambda frame, folder: frame.to_dict("list"),
    "rows": lambda frame, folder: frame.to_dict("records"),
    "Parquet": _parquet,
}


@pytest.mark.parametrize("road", ROADS)
def test_categories_and_intervals_have_one_meaning(model: Any, road: str, tmp_path: Path) -> None:
    expected = model.predict_proba(ROWS)
    np.testing.assert_array_equal(model.predict_proba(ROADS[road](ROWS, tmp_path)), expected)
    first = ROWS.iloc[0].to_dict()
    np.testing.assert_allclose(model.scorer().predict_proba(first), expected[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [(NFC, NFD, "differ in Unicode normalization"), (" x", "x", "differ in the blanks around them")],
)
def test_names_that_look_alike_are_shown_with_their_difference(
    model: Any, name: str, wrong: str, words: str, tmp_path: Path
) -> None:
    renamed = ROWS.rename(columns={name: wrong})
    roads = [renamed, renamed.iloc[0].to_dict(), _csv(renamed, tmp_path), _parquet(renamed, tmp_path)]
    for predict, data in [*((model.predict, road) for road in roads), (model.scorer().predict, roads[1])]:
        with pytest.raises(gp.GpupipeError, match=words):
            predict(data)
    with pytest.raises(gp.GpupipeError, match=words):
        gp.Pipeline(renamed, target="y", drop=[name]).features()
    with pytest.raises(gp.GpupipeError, match=words):
        gp.Pipeline(renamed, target="y", features=[{"standardize": name}]).features()


def test_categories_of_integers_are_classes() -> None:
    frame = pd.DataFrame({"x": RNG.normal(size=90), "y": pd.Categorical([1, 2, 3] * 30)})
    text = frame.astype({"y": str})
    y, expected = (gp.Pipeline(each, target="y").features()[1] for each in (frame, text))
    assert sorted(set(y.tolist())) == [0, 1, 2]  # codes of classes, not the numbers 1 to 3
    np.testing.assert_array_equal(y, expected)


def test_the_feature_program_has_the_columns_of_the_pipeline() -> None:
    frame = ROWS.drop(columns="y").assign(**{"__index_level_0__": 2.0})
    program = gp.FeatureProgram([{"one_hot": ["code", "band"]}])
    with pytest.warns(UserWarning, match=r"column '__index_level_0__' is ignored: it has no name"):
        names = list(program.fit(frame).get_feature_names_out())
    assert [name for name in names if name.startswith("code=")] == [f"code={code}" for code in (1, 2, 3, 4)]
    assert [name for name in names if name.startswith("band=")] == [f"band={band}" for band in ROWS.band.cat.categories]
    assert not [name for name in names if name == "__index_level_0__"]
    with pytest.raises(gp.SchemaError, match="column 'odd' has binary values"):
        gp.FeatureProgram().fit(ROWS[["code"]].assign(odd=[b"\xff\xfe" * 40] * 240))


NUMBERED = pd.DataFrame({0: range(40), 3: [0, 1] * 20, 5: range(40)})
LEVELS = pd.DataFrame({("a", "x"): range(40), ("b", "y"): [0, 1] * 20})


@pytest.mark.parametrize(
    ("frame", "settings"),
    [
        (NUMBERED, {"target": 3, "drop": [5]}),
        (NUMBERED, {"target": "3", "drop": "5"}),
        (LEVELS, {"target": ("b", "y")}),
    ],
)
def test_names_of_other_types_are_names(frame: pd.DataFrame, settings: dict[str, Any]) -> None:
    X, y = gp.Pipeline(frame, **settings).features()
    assert X.shape == (40, 1) and y.tolist() == [0, 1] * 20


@pytest.mark.parametrize(
    ("column", "why"),
    [({}, "add columns"), ({"l": [[1]] * 40}, "column 'l' is dropped: no op reads"), ({"": 1}, "column '' is ignored")],
)
def test_a_table_without_features_is_refused_with_the_reason(column: dict[str, Any], why: str) -> None:
    with pytest.raises(gp.SchemaError, match="no feature column is left: the only column is the target 'y'") as caught:
        gp.Pipeline(pd.DataFrame({"y": [0, 1] * 20, **column}), target="y").features()
    assert why in caught.value.fix


def test_an_unknown_selector_is_a_column_that_is_absent() -> None:
    with pytest.raises(gp.SchemaError, match="no such column: @numerical") as caught:
        gp.Pipeline(ROWS, target="y", drop="@numerical").features()
    assert "did you mean '@numeric'" in caught.value.fix
