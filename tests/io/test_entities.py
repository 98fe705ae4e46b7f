"""Rows and labels built from events, and the steps of event tables, against pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.errors import ConfigError, DataError, SchemaError
from gpupipe.io.entities import read_entities
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.io.source_reader import LoadedTable, read_arrow

DAY = pd.Timedelta(days=1)
ON = {"left": ["who", "shop"], "right": ["customer", "branch"]}


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    """Return 3,000 events of some 120 pairs of keys over 90 days, many at midnight, with nulls everywhere."""
    rng = np.random.default_rng(3)
    n = 3_000
    days = pd.to_timedelta(rng.integers(0, 90, n), unit="D")
    frame = pd.DataFrame(
        {
            "customer": np.where(rng.random(n) < 0.05, np.nan, np.floor(60 * rng.random(n) ** 2)),
            "branch": rng.choice(np.array(["north", "south", None]), n, p=[0.5, 0.45, 0.05]),
            "at": pd.Timestamp("2024-01-01") + days + pd.to_timedelta(rng.choice([0, 9], n), unit="h"),
            "amount": np.where(rng.random(n) < 0.1, np.nan, rng.normal(20, 10, n).round(2)),
            "order": rng.integers(0, 900, n),
        }
    )
    frame.loc[rng.random(n) < 0.02, "at"] = pd.NaT
    # A customer whose first purchase is late in the year has no row for the early cut-offs.
    frame = frame[(frame["customer"] < 40) | frame["customer"].isna() | (frame["at"] > pd.Timestamp("2024-02-10"))]
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    frame.to_parquet(path, index=False)
    return frame, path


def table(path: Path, **more: Any) -> JoinedTable:
    settings = {"path": str(path), "on": ON, "time": "at", "cardinality": "one_to_many"}
    return JoinedTable.model_validate(settings | more)


def made(path: Path, label: dict[str, Any] | None, **entities: Any) -> LoadedTable:
    settings = {"table": "events", "as_of": "2024-02-01", "label": label} | entities
    source = Source.model_validate({"entities": settings, "target": "y" if label else None})
    return read_entities(source, {"events": table(path)})


def by_pandas(frame: pd.DataFrame, cut_off: pd.Timestamp, window: int, active: int | None = None) -> pd.DataFrame:
    """Return one row for each pair with an event before the cut-off, with the figures of the window after it."""
    known = frame.dropna(subset=["customer", "branch", "at"])
    before = known[known["at"] < cut_off]
    if active is not None:
        before = before[before["at"] >= cut_off - active * DAY]
    after = known[(known["at"] >= cut_off) & (known["at"] < cut_off + window * DAY)]
    rows = before[["customer", "branch"]].drop_duplicates().sort_values(["customer", "branch"])
    figures = after.groupby(["customer", "branch"]).agg(
        count=("at", "size"),
        sum=("amount", "sum"), mean=("amount", "mean"), min=("amount", "min"), max=("amount", "max"),
    )  # fmt: skip
    rows = rows.merge(figures.reset_index(), how="left", on=["customer", "branch"])
    rows["as_of"] = cut_off
    return rows.fillna({"count": 0, "sum": 0.0})


@pytest.mark.parametrize("function", ["none", "any", "count", "sum", "mean", "min", "max"])
def test_a_label_matches_pandas(events: tuple[pd.DataFrame, Path], function: str) -> None:
    frame, path = events
    column = function in ("sum", "mean", "min", "max")
    cut_offs = ["2024-02-20", "2024-02-01"]
    loaded = made(path, {function: "events.amount" if column else "events", "within": "1w"}, as_of=cut_offs)

    expected = pd.concat(by_pandas(frame, pd.Timestamp(c), 7) for c in sorted(cut_offs))
    found = loaded.table.to_pandas()
    assert found.columns.tolist() == ["who", "shop", "as_of", "y"]
    assert found["who"].tolist() == expected["customer"].tolist()
    assert found["shop"].astype(str).tolist() == expected["branch"].tolist()
    assert found["as_of"].tolist() == expected["as_of"].tolist()
    if function in ("none", "any"):
        assert found["y"].tolist() == ((expected["count"] > 0) == (function == "any")).tolist()
        assert found["y"].nunique() == 2
    else:
        np.testing.assert_allclose(found["y"].astype(float), expected[function], rtol=1e-12)


def test_a_threshold_makes_a_number_a_yes_or_no(events: tuple[pd.DataFrame, Path]) -> None:
    frame, path = events
    found = made(path, {"max": "events.amount", "within": "7d", "at_least": 25}).table.column("y").to_pylist()
    expected = by_pandas(frame, pd.Timestamp("2024-02-01"), 7)["max"]
    assert found == [None if np.isnan(value) else value >= 25 for value in expected]


def test_only_keys_that_were_active_have_a_row(events: tuple[pd.DataFrame, Path]) -> None:
    frame, path = events
    loaded = made(path, None, active_within="2d")
    assert loaded.table.num_rows == len(by_pandas(frame, pd.Timestamp("2024-02-01"), 7, active=2))
    assert loaded.table.num_rows < made(path, None).table.num_rows
    assert loaded.notes.lines()[-1].endswith("with an event in 'events' before 2024-02-01, within 2d of the cut-off")


def test_a_window_that_the_events_do_not_cover_is_an_error_with_the_dates(events: tuple[pd.DataFrame, Path]) -> None:
    frame, path = events
    assert frame["at"].max() == pd.Timestamp("2024-03-30 09:00")
    complete = made(path, {"none": "events", "within": "28d"}, as_of="2024-03-03")  # up to the end of the last day
    assert complete.table.num_rows
    with pytest.raises(ConfigError) as caught:
        made(path, {"none": "events", "within": "29d"}, as_of="2024-03-03")
    assert "cut-off 2024-03-03 needs events up to 2024-04-01" in str(caught.value)
    assert "ends on 2024-03-30T09:00:00" in str(caught.value)
    assert "set a cut-off of 2024-03-02 or earlier" in str(caught.value)
    assert "until: 2024-04-01" in str(caught.value)
    stated = made(path, {"none": "events", "within": "29d"}, as_of="2024-03-03", until="2024-04-01")
    assert stated.table.num_rows == complete.table.num_rows
    with pytest.raises(ConfigError, match="needs events up to"):
        made(path, {"none": "events", "within": "24h"}, as_of="2024-03-30", until="2024-03-30")


def test_a_cut_off_before_all_events_has_no_rows(events: tuple[pd.DataFrame, Path]) -> None:
    with pytest.raises(DataError, match="no key of table 'events' has an event before the cut-off 2023-01-01"):
        made(events[1], None, as_of="2023-01-01")


def test_computed_filtered_and_grouped_rows_match_pandas(events: tuple[pd.DataFrame, Path]) -> None:
    frame, path = events
    functions = ["sum", "mean", "count", "nunique", "min", "max", "first", "last"]
    steps = {
        "compute": {"net": "-(amount - 3) / 2 + 0.5 * order", "twice": "net * 2"},
        "where": "net > 40 and branch is not None",
        "group_by": {"keys": ["branch", "order"], "columns": {"at": "min", "twice": functions, "*": "count"}},
    }
    found = read_arrow(table(path, **steps)).table.to_pandas()

    twice = 2 * (-(frame["amount"] - 3) / 2 + 0.5 * frame["order"])
    kept = frame.assign(twice=twice)[(twice > 80) & frame["branch"].notna()]
    groups = kept.groupby(["branch", "order"], sort=False)
    assert found["branch"].astype(str).tolist() == [branch for branch, _ in groups.size().index]
    assert found["order"].tolist() == [order for _, order in groups.size().index]
    assert found["at"].tolist() == groups["at"].min().tolist()
    assert found["count"].tolist() == groups.size().tolist()
    for function in functions:
        np.testing.assert_allclose(found[f"twice_{function}"], groups["twice"].agg(function), rtol=1e-12)


def test_the_time_of_a_group_is_read_in_the_declared_format(tmp_path: Path) -> None:
    path = tmp_path / "lines.csv"
    path.write_text("id;when\na;02.01.2024\na;01.02.2024\n")
    steps = {
        "on": "id", "schema": {"when": {"kind": "datetime", "format": "%d.%m.%Y"}},
        "group_by": {"keys": "id", "columns": {"when": "min"}},
    }  # fmt: skip
    assert read_arrow(table(path, **steps)).table.column("when").to_pylist() == [pd.Timestamp("2024-01-02")]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"compute": {"x": "amont * 2"}}, "there is no column 'amont'"),
        ({"compute": {"x": "branch * 2"}}, "column 'branch': expected numbers, found text"),
        ({"group_by": {"keys": ["order", "ordr"], "columns": {"*": "count"}}}, "there is no column 'ordr'"),
        (
            {"group_by": {"keys": "order", "columns": {"branch": "mean"}}},
            "column 'branch': expected numbers, found text",
        ),
    ],
)
def test_a_step_that_does_not_fit_the_columns_is_an_error(
    events: tuple[pd.DataFrame, Path], steps: dict[str, Any], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        read_arrow(table(events[1], **steps))


@pytest.mark.data
def test_returning_cdnow_customers_match_pandas(data_dir: Path, tmp_path: Path) -> None:
    file = data_dir / "cdnow-transactions" / "CDNOW_master.txt"
    frame = pd.read_csv(file, sep=r"\s+", header=0, names=["id", "day", "n", "dollars"], dtype=str)
    frame["day"] = pd.to_datetime(frame["day"], format="%Y%m%d")
    frame.to_parquet(tmp_path / "cdnow.parquet", index=False)
    label = {"none": "purchases", "within": "39w"}  # to 1998-06-30, the last day of the table
    entities = {"table": "purchases", "as_of": "1997-10-01", "label": label}
    source = Source.model_validate({"entities": entities, "target": "churned"})
    loaded = read_entities(source, {"purchases": table(tmp_path / "cdnow.parquet", on="id", time="day")})

    found = loaded.table.to_pandas()
    later = frame.loc[frame["day"] >= "1997-10-01", "id"]
    assert len(found) == 23_570
    assert found["id"].astype(str).tolist() == sorted(frame["id"].unique())
    assert found["churned"].tolist() == (~found["id"].isin(later)).tolist()
    assert found["churned"].mean() == pytest.approx(0.7006, abs=5e-5)
