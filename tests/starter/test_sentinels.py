"""Sentinels: which values are found, what is written for them, and that it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpupipe.config import load_config
from gpupipe.pipeline.run import run_pipeline
from gpupipe.starter.facts import collect_facts
from gpupipe.starter.sentinels import find_sentinels

N = 500
Init = Callable[..., Any]


def found_in(**columns: Any) -> dict[str, list[Any]]:
    frame = pd.DataFrame(columns)
    texts = frame.select_dtypes(exclude=["number", "datetime"]).columns
    frame = frame.astype(dict.fromkeys(texts, "category"))  # as the readers do
    found = find_sentinels(collect_facts(pa.Table.from_pandas(frame, preserve_index=False)))
    return {name: sorted(each.values, key=str) for name, each in found.items()}


def marked(x: Any, *marks: Any, n: int = 25) -> Any:
    """Return a column with each mark in `n` of its rows."""
    x = pd.Series(x).copy()
    x = x.astype(object) if isinstance(marks[0], str) else x
    for i, mark in enumerate(marks):
        x.loc[i * n : (i + 1) * n - 1] = mark
    return x


rng = np.random.default_rng(41)
READINGS = rng.normal(12, 3, N).round(1)
COUNTS = rng.integers(0, 40, N)
DAYS = pd.Timestamp("2022-02-01") + pd.to_timedelta(rng.integers(0, 500, N), "D")


@pytest.mark.parametrize(
    ("x", "marks"),
    [
        (READINGS, [-999.0]),
        (READINGS, [9999.0]),
        (READINGS, [-99.9]),
        (READINGS, [-99, 999]),
        (READINGS, [-300]),
        (COUNTS, [99]),
        (COUNTS, [998, 999]),
        (COUNTS, [-32768]),
        (COUNTS, [2147483647]),
        (rng.integers(1, 6, N), [99]),
        (rng.integers(0, 2, N), [-9]),
        (rng.integers(20_000, 90_000, N), [-9]),
        (DAYS, [pd.Timestamp("1900-01-01")]),
        (DAYS, [pd.Timestamp("2999-12-31")]),
        (DAYS, [pd.Timestamp("1970-01-01")]),
        (DAYS.strftime("%d.%m.%Y"), ["31.12.9999"]),
        (pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 20_000, N), "D"), [pd.Timestamp("1900-01-01")]),
    ],
)
def test_a_repeated_value_far_from_all_others_is_a_sentinel(x: Any, marks: list[Any]) -> None:
    found = found_in(x=marked(x, *marks))["x"]
    expected = [str(mark).removesuffix(" 00:00:00").removesuffix(".0") for mark in marks]
    assert [str(value) for value in found] == sorted(expected)


@pytest.mark.parametrize(
    "x",
    [
        rng.lognormal(8, 2, N),
        np.exp(rng.standard_cauchy(N).clip(-20, 20)),
        np.where(rng.random(N) < 0.9, 0, rng.gamma(2, 5_000, N)),  # most customers have no amount
        np.where(rng.random(N) < 0.6, -1, rng.integers(1, 900, N)),  # -1: never
        np.where(rng.random(N) < 0.5, 0, rng.normal(1e5, 10, N)),  # 0 is a value
        rng.integers(0, 100, N),  # 99 is one of them
        np.minimum(rng.gamma(2, 300, N), 999).round(),  # cut off
        rng.choice([999, 1999, 4999, 9999], N),  # prices
        rng.choice([1, 2, 9], N),
        np.where(np.arange(N) < 2, -999, COUNTS),  # two rows
        rng.choice([0.1, 0.2, 0.5, 50], N),  # doses
        np.where(rng.random(N) < 0.02, 1, 0),
        pd.Timestamp("1899-06-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
        rng.choice(["999", "1000-20-20", "a"], N),
    ],
)
def test_a_legitimate_value_is_kept(x: Any) -> None:
    assert found_in(x=x) == {}


def test_the_sentinel_of_one_column_needs_less_evidence_in_another() -> None:
    wide = rng.gamma(2, 150, N).round(1) + 7
    assert found_in(b=marked(wide, -200.0, n=2)) == {}
    assert found_in(a=marked(READINGS, -200.0), b=marked(wide, -200.0, n=2)) == {"a": [-200], "b": [-200]}


def test_sentinels_of_a_csv_file_become_nulls_on_every_road(tmp_path: Path, init: Init) -> None:
    frame = pd.DataFrame(
        {"a": marked(READINGS, -999.0), "b": COUNTS, "day": marked(DAYS.strftime("%Y-%m-%d"), "1900-01-01")}
    )
    frame["y"] = 2 * READINGS + rng.normal(size=N)
    frame.loc[N - 40 :, "y"] = -7777.0
    made = init(frame)
    assert made.source["where"] == "y != -7777"
    assert made.comment_on("where:") == "-7777 marks missing values: 40 rows without a target"
    assert made.source["csv"] == {"null_values": ["1900-01-01"]}
    assert made.values["features"][0] == {"null_if": {"columns": ["a"], "values": [-999]}}
    assert made.comment_on("- null_if") == "-999 marks missing values: a in 25 rows"
    assert "40 of 500 rows have no y and are dropped." in made.text
    made.path.write_text(
        made.text.partition("models:")[0] + f"models: [ridge]\nreport: {{enabled: false}}\noutput: {tmp_path}/runs\n"
    )
    run = run_pipeline(load_config(made.path))
    plain = frame[frame["y"] != -7777]
    predicted = run.model.predict(plain.drop(columns="y").assign(a=plain["a"].replace(-999.0, np.nan)))
    np.testing.assert_allclose(run.model.predict(plain.drop(columns="y")), predicted, rtol=1e-6)
    assert run.metrics["r2"] > 0.8


def test_sentinels_of_typed_files(tmp_path: Path, init: Init) -> None:
    frame = pd.DataFrame(
        {"a": marked(READINGS, -999.0), "day": marked(DAYS, pd.Timestamp("9999-12-31")), "y": COUNTS % 2}
    )
    frame["day"] = frame["day"].astype("datetime64[us]")
    frame.to_parquet(tmp_path / "table.parquet")
    made = init(tmp_path / "table.parquet")
    assert "csv" not in made.source
    assert made.values["features"][0] == {"null_if": {"columns": ["a"], "values": [-999]}}
    assert "In day 9999-12-31 marks missing values (25 rows): write nulls into the table instead." in made.text


def test_a_mark_of_a_single_class_is_not_a_leak_but_filled_rows_of_one_are(init: Init) -> None:
    y = np.where(rng.random(N) < 0.3, "rich", "poor")
    gain, days = np.where(y == "rich", 3000, 100) + rng.gamma(2, 3000, N).round(), rng.integers(1, 300, N)
    gain[np.flatnonzero(y == "rich")[:60]] = 99999
    is_known = (y == "rich") & (rng.random(N) < 0.7)
    made = init(pd.DataFrame({"gain": gain, "days": np.where(is_known, days, -9999), "x": READINGS, "y": y}))
    assert made.source["drop"] == ["days"]
    assert {"null_if": {"columns": ["gain"], "values": [99999]}} in made.values["features"]


def test_a_date_that_another_column_has_is_not_in_null_values(init: Init) -> None:
    days = DAYS.strftime("%Y-%m-%d")
    other = pd.Series(pd.Timestamp("1899-06-01") + pd.to_timedelta(rng.integers(0, 900, N), "D")).dt.strftime(
        "%Y-%m-%d"
    )
    other[3] = "1900-01-01"
    made = init(pd.DataFrame({"day": marked(days, "1900-01-01"), "born": other, "y": COUNTS % 2}))
    assert "csv" not in made.source
    assert "In day 1900-01-01 marks missing values" in made.text
