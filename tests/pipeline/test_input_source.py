"""Tests of the sources of tables to score: a value has one meaning, whatever its road and the values of a batch."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import load_config
from gpupipe.inference.model import Model, load_model
from gpupipe.inference.prediction.input_source import main_source
from gpupipe.pipeline.run import run_pipeline

N = 240
CONFIG = """\
source: {path: t.csv, target: y, schema: {zip: categorical}}
tables: {orders: {path: orders.csv, on: customer, cardinality: one_to_many}}
features:
  - aggregate: {table: orders, columns: {spend: [mean, count]}}
  - text_hash: {columns: note, buckets: 8}
  - encode: "@categorical"
models: [logistic_regression]
report: {enabled: false}
"""


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rows whose texts look like numbers, booleans or dates in some batches only, and events."""
    row = np.arange(N)
    frame = pd.DataFrame({
        "zip": np.array(["00501", "01234", "10001", "A0210"])[row % 4],
        "seen": np.array(["2024-01-01", "2024-02-01", "never"])[row % 3],
        "flag": np.array(["True", "False", "maybe"])[row // 3 % 3],
        "note": [f"{i:04d}" if i % 5 else "call back" for i in row],
        "customer": [f"{i:04d}" if i % 7 else f"C{i}" for i in row],
        "y": np.where((row % 4 < 2) ^ (row % 11 == 0), "yes", "no"),
    })  # fmt: skip
    orders = pd.DataFrame({"customer": frame["customer"].repeat(2), "spend": np.arange(2.0 * N)})
    return frame, orders


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("texts")
    for name, table in zip(("t.csv", "orders.csv"), tables(), strict=True):
        table.to_csv(folder / name, index=False)
    (folder / "c.yaml").write_text(CONFIG)
    return load_model(run_pipeline(load_config(folder / "c.yaml"), folder / "run").path)


@pytest.mark.parametrize("rows", [slice(1, 2), slice(8, 9), slice(0, None)])
def test_the_score_of_a_row_does_not_depend_on_the_batch(model: Model, tmp_path: Path, rows: slice) -> None:
    frame, orders = tables()
    batch = frame.iloc[rows].drop(columns="y")
    own = orders[orders["customer"].isin(batch["customer"])]
    batch.to_csv(tmp_path / "new.csv", index=False)
    own.to_csv(tmp_path / "orders.csv", index=False)
    from_csv = model.predict_proba(tmp_path / "new.csv", {"orders": tmp_path / "orders.csv"})
    np.testing.assert_array_equal(
        from_csv, model.predict_proba(batch, {"orders": own})
    )  # in memory, texts are texts already


def test_keys_of_digits_only_match_an_event_table_that_also_has_keys_with_letters(model: Model, tmp_path: Path) -> None:
    frame, orders = tables()
    batch = frame.iloc[1:4].drop(columns="y")
    batch.to_csv(tmp_path / "new.csv", index=False)
    orders.to_csv(tmp_path / "orders.csv", index=False)
    from_csv = model.predict_proba(tmp_path / "new.csv", {"orders": tmp_path / "orders.csv"})
    np.testing.assert_array_equal(from_csv, model.predict_proba(batch, {"orders": orders}))


FORMS = """\
source: {path: forms.csv, target: y, schema: {code: categorical}}
features: [{one_hot: {columns: "@categorical"}}, {text_hash: {columns: name, buckets: 16}}]
models: [ridge]
report: {enabled: false}
"""
WRITTEN: dict[str, list[list[Any]]] = {  # values of each column, of which the first is in the file
    "flag": [["True", True, "true", " TRUE"], ["False", False], ["Unknown", "Unknown "]],
    "code": [["1.0", 1, 1.0, "1", np.float32(1)], ["2.0", 2], ["9.10"], ["9.1", 9.1]],
    "name": [["oak", "oak ", "\toak", "oak\u00a0"], ["ash", " ash"], ["größe", "gro\u0308ße"]],
    "day": [["2024-01-31", dt.date(2024, 1, 31), "2024-01-31 00:00:00"], ["2024-02-29T05:06:07"], ["later"]],
}


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("forms")
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({name: [values[rng.integers(len(values))][0] for _ in range(200)]
                          for name, values in WRITTEN.items()})  # fmt: skip
    frame["y"] = sum(frame[name].rank(method="dense") * 3.0**i for i, name in enumerate(WRITTEN))
    frame.replace({"name": {"oak": "oak "}}).to_csv(folder / "forms.csv", index=False)
    (folder / "c.yaml").write_text(FORMS)
    return load_model(run_pipeline(load_config(folder / "c.yaml"), folder / "run").path)


def predictions(model: Model, row: dict[str, Any], other: dict[str, Any], folder: Path) -> Iterator[tuple[str, float]]:
    """Yield the prediction of a row by each road, alone and after another row."""
    scorer = model.scorer("numpy")
    for rows in ([row], [other, row]):
        yield "rows", model.predict(rows)[-1]
        yield "scorer", scorer.predict(rows)[-1]
        yield "frame", model.predict(pd.DataFrame(rows, dtype=object))[-1]
        pd.DataFrame(rows).to_csv(folder / "t.csv", index=False)
        yield "CSV", model.predict(folder / "t.csv")[-1]
        lines = [{k: v if isinstance(v, str | bool | int) else str(v) for k, v in each.items()} for each in rows]
        (folder / "t.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
        if len({type(each[name]) for name in row for each in lines}) == 1:  # Arrow refuses columns of several types
            yield "JSON lines", model.predict(folder / "t.jsonl")[-1]
    pd.DataFrame([row]).to_parquet(folder / "t.parquet", index=False)
    yield "Parquet", model.predict(folder / "t.parquet")[-1]


@pytest.mark.parametrize(("name", "values"), [(name, each) for name, of in WRITTEN.items() for each in of if each[1:]],
                         ids=lambda value: value if isinstance(value, str) else value[0])  # fmt: skip
def test_a_value_has_one_prediction_by_every_road(forms: Model, tmp_path: Path, name: str, values: list[Any]) -> None:
    first, other = ({each: of[place][0] for each, of in WRITTEN.items()} for place in (0, 1))
    pd.DataFrame([{**first, name: values[0]}]).to_csv(tmp_path / "first.csv", index=False)
    expected = forms.predict(tmp_path / "first.csv")[0]
    for value in values:
        for road, found in predictions(forms, {**first, name: value}, other, tmp_path):
            if name != "name" or value != "gro\u0308ße":  # text features are those of the characters
                assert found == pytest.approx(expected, abs=1e-6), f"{value!r} by {road}"


def test_each_value_of_a_column_has_another_prediction(forms: Model) -> None:
    first = {each: of[0][0] for each, of in WRITTEN.items()}
    for name, of in WRITTEN.items():
        found = {round(float(forms.predict({**first, name: values[0]})[0]), 3) for values in of}
        assert len(found) == len(of), name


@pytest.mark.filterwarnings("ignore:.*every row is null")
def test_a_folder_of_a_hive_table_has_its_value_alone(tmp_path: Path) -> None:
    """The name of a folder is a text, which the model interprets, not the other folders."""
    for code in ("01", "02", "A3", "NA"):
        for place in ("all", f"only {code}"):
            (tmp_path / place / f"region={code}").mkdir(parents=True)
            y = np.arange(30) % 5 + 10.0 * (code == "01") + 5.0 * (code == "NA")
            pd.DataFrame({"y": y}).to_parquet(tmp_path / place / f"region={code}" / "rows.parquet")
    text = "source: {path: all, target: y}\nfeatures: [{one_hot: region}]\nmodels: [ridge]\nreport: {enabled: false}\n"
    (tmp_path / "c.yaml").write_text(text)
    model = load_model(run_pipeline(load_config(tmp_path / "c.yaml"), tmp_path / "run").path)
    assert model.features.input_schema["region"].levels == ("01", "02", "A3")
    for code in ("01", "02", "A3", "NA"):
        alone, row = model.predict(tmp_path / f"only {code}")[0], model.predict({"region": code})[0]
        assert alone == pytest.approx(row, abs=1e-6)


def test_models_of_earlier_versions_strip_csv_files_only(forms: Model) -> None:
    reading = {name: value for name, value in forms.manifest["reading"].items() if name not in ("strip", "keys")}
    old = main_source("any.csv", reading, forms.features)
    assert old.csv.strip and not old.strips_typed_files and old.keys == ()
    new = main_source("any.csv", forms.manifest["reading"], forms.features)
    assert new.csv.strip and new.strips_typed_files


def test_an_event_of_another_key_changes_no_prediction(tmp_path: Path) -> None:
    keys = [f"{i:02d}" for i in range(1, 41)]
    pd.DataFrame({"k": keys, "y": [i % 9 for i in range(40)]}).to_csv(tmp_path / "t.csv", index=False)
    orders = pd.DataFrame([(key, float(i)) for i, key in enumerate(keys) for _ in range(i % 9)], columns=["k", "v"])
    orders.to_csv(tmp_path / "orders.csv", index=False)
    (tmp_path / "c.yaml").write_text(
        "source: {path: t.csv, target: y}\ntables: {orders: {path: orders.csv, on: k, cardinality: one_to_many}}\n"
        "features: [{aggregate: {table: orders, columns: {v: [count]}}}]\nmodels: [ridge]\nreport: {enabled: false}\n"
    )
    model = load_model(run_pipeline(load_config(tmp_path / "c.yaml"), tmp_path / "run").path)
    (tmp_path / "more.csv").write_text((tmp_path / "orders.csv").read_text() + "HQ,1\n")
    (tmp_path / "few.csv").write_text("k\n08\n")
    (tmp_path / "mixed.csv").write_text("k\n08\nHQ\n")
    expected = model.predict(tmp_path / "t.csv", {"orders": tmp_path / "orders.csv"})
    np.testing.assert_array_equal(model.predict(tmp_path / "t.csv", {"orders": tmp_path / "more.csv"}), expected)
    for path in ("few.csv", "mixed.csv"):
        for events in ("orders.csv", "more.csv"):
            assert model.predict(tmp_path / path, {"orders": tmp_path / events})[0] == expected[7]
    assert model.predict({"k": "08"}, {"orders": orders}) == expected[7]
