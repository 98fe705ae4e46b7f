"""Keyed features in cuDF, of a frame with the columns key, when and value sorted by key and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import cudf

ROWS = 7
DAYS = 7
LAG = 1


def sum_of_last_events(frame: cudf.DataFrame) -> cudf.Series:
    """Return the sum of the key's last `ROWS` events."""
    return frame[["key", "value"]].groupby("key").rolling(ROWS, min_periods=1).sum()["value"]


def mean_of_last_days(frame: cudf.DataFrame) -> cudf.Series:
    """Return the mean of the key's events in the last `DAYS` days."""
    by_time = frame.set_index(frame["when"].astype("datetime64[us]"))
    return by_time[["key", "value"]].groupby("key").rolling(f"{DAYS}D", min_periods=1).mean()["value"]


def running_sum(frame: cudf.DataFrame) -> cudf.Series:
    """Return the sum of the key's events up to this one."""
    return frame.groupby("key")["value"].cumsum()


def value_of_event_before(frame: cudf.DataFrame) -> cudf.Series:
    """Return the value of the key's event `LAG` events before this one."""
    return frame.groupby("key")["value"].shift(LAG)
