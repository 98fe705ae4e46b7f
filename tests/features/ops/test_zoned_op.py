"""Calendar parts in time zones against pandas."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from datetime import datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any
from zoneinfo import TZPATH, ZoneInfo, available_timezones

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import gpupipe as gp
from gpupipe.errors import ConfigError
from gpupipe.features import OPS
from gpupipe.features.ops.zoned_op import zone_table
from gpupipe_kernels.formulas.calendar import TimeZone, local_times
from gpupipe_kernels.interpreters.numpy.interpreter import run
from gpupipe_kernels.program.time_zones import join_zones
from tests.examples import examples

ZONES = sorted(available_timezones())
PARTS = ["year", "month", "day", "weekday", "hour", "minute", "second", "day_of_year"]
TIMES = st.lists(st.datetimes(datetime(1800, 1, 1), datetime(2100, 12, 1)) | st.none(), min_size=1, max_size=20)
SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1)
STEPS = st.sampled_from([-SECOND, -1, 0, 1, SECOND])
USUAL = ["America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "Europe/Dublin"]
MOMENTS = ["2024-03-10 06:59:59", "2024-03-10 07:00:00", "2024-11-03 05:30:00", "2024-11-03 06:30:00"]
"""Around the change to and from daylight saving time in New York: the last two have the same local time."""


def binary_zone(name: str) -> bytes:
    found = [path for folder in TZPATH if (path := Path(folder, name)).is_file()]
    return found[0].read_bytes() if found else resources.files("tzdata.zoneinfo").joinpath(name).read_bytes()


def transitions_in(zone: bytes) -> np.ndarray:
    """Return the transitions that a file lists, in microseconds: the second block of RFC 8536, of 64 bits."""
    n_utc, n_standard, n_leaps, n_times, n_types, n_letters = struct.unpack(">6l", zone[20:44])
    start = 44 + n_times * 5 + n_types * 6 + n_letters + n_leaps * 8 + n_standard + n_utc
    (n_times,) = struct.unpack(">l", zone[start + 32 : start + 36])
    seconds = np.frombuffer(zone, ">i8", n_times, start + 44).astype(np.int64)
    return seconds[seconds > -(2**40)] * SECOND


def test_every_zone_has_the_local_times_of_pandas_around_all_transitions() -> None:
    around = np.array([-SECOND, -1, 0, 1, SECOND])
    grid = np.arange(-5_300_000_000, 4_133_900_000, 12 * 86_400) * SECOND  # from 1802 to 2100
    zones = {binary_zone(name): name for name in ZONES}
    assert len(zones) > 300
    for content, name in zones.items():
        table = zone_table(name)
        own = np.array(table[: len(table) // 2], np.int64)
        edges = np.concatenate([own, transitions_in(content)])
        times = np.concatenate([grid, (edges[:, None] + around).ravel()])
        expected = pd.DatetimeIndex(times.view("M8[us]"), tz="UTC").tz_convert(ZoneInfo(name)).tz_localize(None)
        found = local_times(times, TimeZone.of(table)) if table else times
        np.testing.assert_array_equal(found.view("M8[us]"), expected.to_numpy(), err_msg=name)
    tables = [zone_table(name) or (0.0,) for name in zones.values()]
    together = TimeZone.of(join_zones(tables), True)  # in wider buckets, some with several transitions
    assert together.n_steps > 1
    for index, table in enumerate(tables):
        times = np.add.outer(np.array(table[: len(table) // 2], np.int64), around).ravel()
        found = local_times(times, together, index=np.full(len(times), index))
        np.testing.assert_array_equal(found, local_times(times, TimeZone.of(table)))


@examples(40)
@given(times=TIMES, zone=st.sampled_from([*ZONES, "+05:30", "-00:01"]), is_typed=st.booleans())
def test_parts_in_any_zone_match_pandas(fit, times: list, zone: str, is_typed: bool) -> None:
    plain = pd.Series(times, dtype="datetime64[us]")
    column = plain.dt.tz_localize("UTC").dt.tz_convert(zone)
    stated = {} if is_typed else {"zone": zone}
    ops = [{op: {"columns": "t", "parts": parts, **stated}} for op, parts in (
        ("datetime_parts", PARTS), ("cyclic", ["hour", "weekday", "month"])
    )]  # fmt: skip
    made = fit({"t": column if is_typed else plain}, ops, view="codes")
    for part in PARTS:
        expected = getattr(column.dt, "day_of_week" if part == "weekday" else part).to_numpy(float, na_value=np.nan)
        np.testing.assert_array_equal(made.training[f"t_{part}"], expected)
    for part, period in (("hour", 24), ("weekday", 7), ("month", 12)):
        value = made.training[f"t_{part}"] - (part == "month")
        np.testing.assert_allclose(
            made.training[f"t_{part}_sin"], np.sin(value * 2 * np.pi / period).fillna(0), atol=1e-6
        )
    pd.testing.assert_frame_equal(made.serve({"t": plain}), made.training)


DAYS = ["2024-03-10", "2024-11-03", "2024-12-25", "2024-12-26", "1900-01-01", "2099-12-31"]  # two with 23 and 25 hours
ODD = [datetime(1, 1, 1), datetime(1601, 1, 1), datetime(1753, 1, 1), datetime(1899, 12, 30), datetime(9999, 12, 31)]


@examples(40)
@given(
    hours=st.lists(st.tuples(st.sampled_from(DAYS), st.integers(-30, 54), st.integers(-1, 1)), max_size=20),
    times=TIMES,
    zones=st.lists(st.sampled_from([*USUAL, "UTC", "+05:30"]), min_size=1, max_size=2),
)
def test_holidays_are_days_of_the_zone(fit, hours: list[Any], times: list, zones: list[str]) -> None:
    near = [datetime.fromisoformat(day) + timedelta(hours=hour, seconds=second) for day, hour, second in hours]
    frame = pd.DataFrame({"t": pd.Series([*near, *times, *ODD], dtype="datetime64[us]")})
    frame["tz"] = [zones[i % len(zones)] for i in range(len(frame))]
    zone: Any = {"column": "tz"} if len(zones) > 1 else zones[0]
    op = {"datetime_parts": {"columns": "t", "parts": ["hour"], "holidays": DAYS, "zone": zone}}
    made = fit(frame, [op, {"drop": "tz"}], view="codes").training["t_is_holiday"]
    expected = pd.Series(np.nan, frame.index)
    for name, own in frame["t"].dropna().groupby(frame["tz"]):
        is_far = own.dt.year.isin([1, 9999])  # pandas cannot convert them
        local = own[~is_far].dt.tz_localize("UTC").dt.tz_convert(name)
        expected[own.index] = (
            local.dt.strftime("%Y-%m-%d").isin(DAYS).reindex(own.index, fill_value=False).astype(float)
        )
    np.testing.assert_array_equal(made, expected)


@st.composite
def rows_with_zones(draw: st.DrawFn) -> pd.DataFrame:
    """Return times, most of them around a transition of the zone in their row; some zones are null or unknown."""
    rows = []
    for zone in draw(st.lists(st.sampled_from([*ZONES, *USUAL, "+05:30", "-00:01"]), min_size=1, max_size=4)):
        times = draw(TIMES)
        if zone in ZONES and len(changes := transitions_in(binary_zone(zone))):
            near = st.sampled_from([*changes.tolist(), int(changes[0]) - 10**13, int(changes[-1]) + 10**15])
            times += draw(st.lists(st.builds(lambda us, d: EPOCH + timedelta(microseconds=us + d), near, STEPS)))
        rows += [(time, draw(st.sampled_from([zone] * 4 + [None, "Mars/Olympus"]))) for time in times]
    rows.append((datetime(2024, 7, 1), "Asia/Tokyo"))
    frame = pd.DataFrame(draw(st.permutations(rows)), columns=["t", "tz"])
    return frame.astype({"t": "datetime64[us]", "tz": object})


def local_parts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the parts of the times, each in the zone of its row; NaN if one of them is missing."""
    found = pd.DataFrame(np.nan, frame.index, PARTS)
    for zone, times in frame["t"].groupby(frame["tz"].where(~frame["tz"].isin(["Mars/Olympus", "Moon"]))):
        local = times.dt.tz_localize("UTC").dt.tz_convert(zone).dt
        for part in PARTS:
            values = getattr(local, "day_of_week" if part == "weekday" else part)
            found.loc[times.index, part] = values.to_numpy(float, na_value=np.nan)
    return found


@examples(60)
@given(frame=rows_with_zones(), new=rows_with_zones())
def test_each_row_has_its_own_zone(fit, frame: pd.DataFrame, new: pd.DataFrame) -> None:
    """The reference is pandas; zones that the training rows do not have are null, as are other values."""
    zone = {"zone": {"column": "tz"}}
    ops = [{"datetime_parts": {"columns": "t", "parts": PARTS, **zone}},
           {"cyclic": {"columns": "t", "parts": ["hour", "weekday", "month"], **zone}}]  # fmt: skip
    made = fit(frame, ops, view="codes", schema={"tz": "categorical", "t": "datetime"})
    served = new.assign(tz=new["tz"].where(new["tz"].isin(frame["tz"]), "Moon"))
    for rows, found in ((frame, made.training), (served, made.serve(new))):
        np.testing.assert_array_equal(found[[f"t_{part}" for part in PARTS]], local_parts(rows))
        for part, period in (("hour", 24), ("weekday", 7), ("month", 12)):
            angle = (found[f"t_{part}"] - (part == "month")) * 2 * np.pi / period
            np.testing.assert_allclose(found[f"t_{part}_cos"], np.cos(angle).fillna(0), atol=1e-6)


def test_two_columns_with_the_same_zones_share_their_table(fit) -> None:
    times = pd.to_datetime(["2024-07-01 12:00", "2024-07-01 12:00", "2024-07-01 12:00"])
    names = ["Asia/Tokyo", "America/New_York", None]
    frame = {"t": times, "u": times, "of_t": names, "of_u": [*names[1::-1], None]}
    ops = [{"datetime_parts": {"columns": c, "parts": ["hour", "day"], "zone": {"column": f"of_{c}"}}} for c in "tu"]
    ops.insert(1, {"cyclic": {"columns": "t", "parts": ["hour"], "zone": {"column": "of_u"}}})
    made = fit(frame, [*ops, {"drop": ["of_t", "of_u"]}], view="codes")
    np.testing.assert_allclose(
        made.training["t_hour_cos"], [np.cos(np.pi * 2 / 3), np.cos(np.pi * 7 / 4), 0], atol=1e-6
    )
    expected = {"t_hour": [21, 8, np.nan], "t_day": [1, 1, np.nan], "u_hour": [8, 21, np.nan], "u_day": [1, 1, np.nan]}
    np.testing.assert_array_equal(made.training[list(expected)], pd.DataFrame(expected))
    size = sum(len(zone_table(name)) for name in names[:2])
    assert size <= len(made.features.program.params) < 2 * size
    program = made.features.program.of_columns([5, 1])
    out = np.empty((3, 2), np.float32, order="F")
    run(program, made.table.blocks, out)
    np.testing.assert_array_equal(out, made.training.iloc[:, [5, 1]])


def test_values_other_than_zones_are_counted(fit) -> None:
    op = {"columns": "t", "parts": ["hour"], "zone": {"column": "tz"}}
    names = ["UTC", "EST5EDT", "CET", "PST", "PST", "Rome", "Oslo", "Moon", None]
    frame: dict[str, Any] = {
        "t": pd.to_datetime(["2024-07-01"] * len(names)),
        "tz": names,
        "x": np.arange(len(names)) / 7,
    }
    made = fit(frame, [{"datetime_parts": op}], view="codes")
    assert made.training["t_hour"].fillna(-1).tolist() == [0, 20, 2, -1, -1, -1, -1, -1, -1]
    assert (
        "column 'tz': expected a time zone such as America/New_York, got 'Moon', 'Oslo', 'PST' and others; "
        "parts of times are null in 5 training rows"
    ) in made.features.warnings
    with pytest.raises(ConfigError, match=r"column 'tz': expected a time zone .*, got 'Moon'\n"):
        fit({key: values[7:8] for key, values in frame.items()}, [{"cyclic": op}], schema={"tz": "categorical"})
    with pytest.raises(ConfigError, match="cyclic takes categorical columns; 'x' is numeric"):
        fit(frame, [{"cyclic": {**op, "zone": {"column": "x"}}}])
    with pytest.raises(ConfigError, match=r"expected one column of time zones; '\*z' matches 2"):
        fit({**frame, "z": names}, [{"cyclic": {**op, "zone": {"column": "*z"}}}])


@pytest.mark.parametrize(
    "convert", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "Arrow"]
)
def test_the_zone_of_a_column_is_the_default(fit, convert) -> None:
    frame = pd.DataFrame({"t": pd.to_datetime(MOMENTS).tz_localize("UTC").tz_convert("America/New_York")})
    arrow = pa.Table.from_pandas(frame) if convert is pd.DataFrame else pa.table(convert(frame))
    parts = {"columns": "t", "parts": ["hour"]}
    made = fit(arrow, [{"datetime_parts": parts}])
    assert made.training["t_hour"].tolist() == [1, 3, 1, 1]
    assert "calendar parts of 't' are in its time zone, America/New_York; zone: UTC keeps them in UTC" in made.notes
    assert [state.get("zone") for state in made.features.states] == ["America/New_York"]
    plain = fit(arrow, [{"datetime_parts": {**parts, "zone": "UTC"}}])
    assert plain.training["t_hour"].tolist() == [6, 7, 5, 6]
    assert "time zone" not in plain.notes


def test_columns_of_one_zone_share_its_table(fit) -> None:
    parts = {"columns": "@datetime", "zone": "America/New_York"}
    times = {"t": pd.to_datetime(MOMENTS), "u": pd.to_datetime(MOMENTS[::-1])}
    made = fit(times, [{"datetime_parts": parts}, {"cyclic": parts}])
    assert made.training["u_hour"].tolist() == made.training["t_hour"].tolist()[::-1] == [1, 1, 3, 1]
    program = made.features.program
    size = len(zone_table("America/New_York"))
    for each in (program, program.of_columns(range(program.n_columns)[::-1])):
        assert size <= len(each.params) < 2 * size


def test_days_that_begin_at_local_midnight_have_no_hour(fit) -> None:
    days = pd.date_range("2024-03-01", periods=40, tz="America/New_York")
    assert not [name for view in ("codes", "dense") for name in fit({"t": days}, view=view).names if "hour" in name]


def test_unknown_zones_are_refused_with_advice(fit) -> None:
    op = OPS.get("datetime_parts")
    with pytest.raises(ValidationError, match=r"such as America/New_York, got 'America/NewYork'.*America/New_York"):
        op.model_validate({"columns": "t", "zone": "America/NewYork"})
    with pytest.raises(ValidationError, match=r"expected the name of a time zone, or \{column: NAME\} for the zone of"):
        op.model_validate({"columns": "t", "zone": {"columns": "tz"}})
    table = pa.table({"t": pa.array([0], pa.timestamp("us", "Mars/Olympus"))})
    with pytest.raises(ConfigError, match="column 't': expected a time zone such as") as caught:
        fit(table, [{"cyclic": "t"}])
    assert "- cyclic: {columns: t, zone: UTC}" in caught.value.fix
    fit(table, [{"cyclic": {"columns": "t", "zone": "UTC"}}])


SERVE = """
import sys
sys.modules["tzdata"] = None
from zoneinfo import ZoneInfo, available_timezones
assert not available_timezones()
import gpupipe as gp
model, rows = gp.load_model(sys.argv[1]), [{"t": text} for text in sys.argv[2:]]
print(*model.predict(rows).tolist(), *model.scorer().predict(rows).tolist())
"""


def test_a_model_needs_no_time_zone_database(tmp_path: Path) -> None:
    hours = pd.date_range("2024-01-01", periods=400, freq="h", tz="UTC")
    local = hours.tz_convert("Asia/Kathmandu")
    frame = pd.DataFrame({"t": local, "y": local.hour.to_numpy(float)})
    features = [{"datetime_parts": {"columns": "t", "parts": ["hour"]}}]
    pipeline = gp.Pipeline(frame, target="y", features=features, models=["ridge"])
    run = pipeline.run(tmp_path / "run", quiet=True)
    command = [sys.executable, "-c", SERVE, str(run.path), "2024-06-01T00:00", "2024-06-01T18:20"]
    done = subprocess.run(command, env={**os.environ, "PYTHONTZPATH": ""}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(list(map(float, done.stdout.split())), [5, 0, 5, 0], atol=0.1)
