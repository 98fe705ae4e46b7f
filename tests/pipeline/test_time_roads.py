"""Times on every road of a model: files, frames, rows, the scorer and chunks give one answer, in any company."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpupipe as gp

pytestmark = pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")  # one missing row is all rows
PARTS = ["year", "month", "day", "hour"]
COLUMNS = ("iso", "dotted", "swapped", "digits", "ticks")
SCHEMA = {
    "dotted": "datetime",  # the format is inferred
    "swapped": {"kind": "datetime", "format": "%Y-%d-%m"},  # which looks like ISO 8601
    "digits": {"kind": "datetime", "format": "%Y%m%d"},
    "ticks": {"kind": "datetime", "format": "s"},
}


def written(moments: Any) -> pd.DataFrame:
    moments = pd.DatetimeIndex(moments)
    return pd.DataFrame(
        {
            "iso": moments,
            "dotted": moments.strftime("%d.%m.%Y %H:%M"),
            "swapped": moments.strftime("%Y-%d-%m"),
            "digits": moments.strftime("%Y%m%d").astype(int),
            "ticks": moments.as_unit("s").astype("int64"),
        }
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> gp.Model:
    moments = pd.date_range("2023-01-01", "2025-12-31", periods=600).floor("min")
    rows = written(moments).assign(y=moments.day_of_year + moments.hour / 24)
    path = tmp_path_factory.mktemp("times")
    rows.to_csv(path / "t.csv", index=False)  # swapped has days up to 12 only in some of the chunks
    features = [{"datetime_parts": {"columns": list(COLUMNS), "parts": PARTS}}]
    source = {"path": str(path / "t.csv"), "schema": SCHEMA}
    return gp.Pipeline(source, target="y", features=features, models=["ridge"]).run(path / "run", quiet=True).model


def answers(model: gp.Model, rows: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return the predictions of rows by road, or "refused"."""
    frame = pd.DataFrame(rows)
    frame.to_csv(folder / "r.csv", index=False)
    (folder / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.table({name: [row[name] for row in rows] for name in rows[0]}), folder / "r.parquet")
    scorer = model.scorer()
    roads = {
        "CSV": lambda: model.predict(folder / "r.csv"),
        "JSON lines": lambda: model.predict(folder / "r.jsonl"),
        "Parquet": lambda: model.predict(folder / "r.parquet"),
        "frame": lambda: model.predict(frame),
        "list": lambda: model.predict(rows),
        "rows alone": lambda: np.concatenate([model.predict([row]) for row in rows]),
        "scorer": lambda: np.asarray(scorer.predict(rows)),
    }
    return {road: answer(predict) for road, predict in roads.items()}


def answer(predict: Any) -> Any:
    try:
        return np.asarray(predict()).tolist()
    except gp.GpupipeError:
        return "refused"


MOMENT = datetime(2024, 6, 3, 5, 6)
ROW = {"iso": "2024-06-03T05:06:00", "dotted": "03.06.2024 05:06", "swapped": "2024-03-06", "digits": 20240603,
       "ticks": 1717391160}  # fmt: skip


def test_the_formats_of_the_training_are_recorded(model: gp.Model) -> None:
    found = {column.name: column.time_format for column in model.scorer().columns}
    assert found == {"iso": None, "dotted": "%d.%m.%Y %H:%M", "swapped": "%Y-%d-%m", "digits": "%Y%m%d", "ticks": "s"}


FORMS: dict[str, list[dict[str, Any]]] = {  # of one type in each column, as files have
    "text": [
        {"iso": "2024-06-03 05:06"},
        {"iso": "2024-06-03T05:06:00.000000000Z"},
        {"iso": "2024-06-03T08:06+03"},
        {"iso": "20240603T0506"},
        {"iso": " 2024-06-03t05:06z "},
        {"dotted": " 3.6.2024 05:06 "},
        dict.fromkeys(COLUMNS),
    ],
    "digits as text": [{"digits": "20240603", "ticks": "1717391160"}, {"digits": "20240603 ", "ticks": "1717391160.0"}],
    "floats": [{"digits": 20240603.0, "ticks": 1717391160.0}, {"digits": None, "ticks": None}],
}


@pytest.mark.parametrize("forms", FORMS.values(), ids=FORMS)
def test_every_form_of_a_time_has_its_meaning_on_every_road(
    model: gp.Model, tmp_path: Path, forms: list[dict[str, Any]]
) -> None:
    expected, found = model.predict(written([MOMENT]))[0], answers(model, [ROW | cells for cells in forms], tmp_path)
    assert found == dict.fromkeys(found, found["scorer"])
    assert [each == expected for each in found["scorer"]] == [None not in cells.values() for cells in forms]


@pytest.mark.parametrize(
    "cells",
    [
        {"iso": "03.06.2024"},
        {"iso": "03/06/2024"},
        {"iso": "20240603"},
        {"iso": "2024-06-31"},
        {"iso": "2024-06-03T24:00"},
        {"dotted": "2024-06-03T05:06"},
        {"dotted": "2024-06-03"},
        {"swapped": "2024-06-13"},  # ISO 8601, and June 13: month 13 in the recorded format
        {"digits": 20240631},
        {"digits": "2024603"},
        {"digits": "2024-06-03"},
        {"ticks": "2024-06-03"},
        {"ticks": "soon"},
    ],
    ids=str,
)
def test_other_texts_are_refused_on_every_road(model: gp.Model, tmp_path: Path, cells: dict[str, Any]) -> None:
    found = answers(model, [ROW | cells], tmp_path)
    assert found == dict.fromkeys(found, "refused")


@pytest.mark.parametrize("cells", [{"iso": "03/06/2024"}, {"dotted": "2024-06-03"}, {"swapped": "2024-06-13"}], ids=str)
def test_other_texts_are_refused_in_any_company(model: gp.Model, tmp_path: Path, cells: dict[str, Any]) -> None:
    found = answers(model, [ROW | cells, ROW, ROW | {"dotted": "31.12.2024 00:00"}], tmp_path)
    assert found == dict.fromkeys(found, "refused")


def test_times_out_of_range_are_missing_on_every_road(model: gp.Model, tmp_path: Path) -> None:
    missing = model.predict([ROW | {"iso": None}])[0]
    far = [np.datetime64(2**62, unit) for unit in ("s", "ms", "D", "Y")]
    for value in far:
        assert model.predict([ROW | {"iso": value}])[0] == missing
        assert model.predict([ROW | {"iso": value}, ROW | {"iso": MOMENT}])[0] == missing
        assert model.scorer().predict(ROW | {"iso": value}) == missing
    table = pa.table(written([MOMENT] * 2)).drop_columns("iso")
    for kind in (pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us")):
        smallest = pa.array([-(2**63), None], pa.int64()).view(kind)
        assert model.predict(table.append_column("iso", smallest)).tolist() == [missing] * 2
    assert model.scorer().predict(ROW | {"ticks": 1e300}) == model.predict([ROW | {"ticks": None}])[0]
    assert answers(model, [ROW | {"ticks": 1e300}], tmp_path)["CSV"] == [model.predict([ROW | {"ticks": None}])[0]]


def test_columns_without_a_value_are_read(model: gp.Model, tmp_path: Path) -> None:
    found = answers(model, [dict.fromkeys(COLUMNS), dict.fromkeys(COLUMNS)], tmp_path)
    assert len({str(each) for each in found.values()}) == 1 and found["list"] != "refused"
