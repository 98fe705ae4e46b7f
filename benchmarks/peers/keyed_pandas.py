"""Columns of `benchmarks.keyed` in pandas and NumPy: an optimized version, and one with the documented methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchmarks.keyed.event_log import CUT_OFF, SPAN, EventLog
from gpupipe.bench.clock import StageClock
from gpupipe.typing import Array
from gpupipe.units import DAY_US

if TYPE_CHECKING:
    from benchmarks.keyed.event_log import Columns


def best(events: EventLog, clock: StageClock) -> Columns:
    """Compute all columns. Events are sorted by time, so only the windows need another sort."""
    table = _table(events)
    with clock("ordering"):
        lines = table[table["key"] >= 0].reset_index(drop=True)
        key = lines["key"].to_numpy()
        order = np.argsort(key, kind="stable")
        in_order = key[order], lines["time"].to_numpy()[order], lines["spend"].to_numpy()[order]
    columns: Columns = {}
    with clock("running"):
        lines["new"] = ~pd.Series(key * np.int64(lines["stock"].max() + 1) + lines["stock"].to_numpy()).duplicated()
        columns["running"] = _running(lines)
    with clock("windows"):
        columns["windows"] = {name: _placed(order, values) for name, values in _windows(*in_order).items()}
    with clock("joined back"):
        earlier = lines.iloc[: np.searchsorted(lines["time"].to_numpy(), CUT_OFF)]
        columns["joined back"] = _joined_back(earlier, ("new", "sum"), events.n_keys)
    return columns


def as_documented(events: EventLog, clock: StageClock) -> Columns:
    """Compute windows and aggregates with the documented methods."""
    table = _table(events)
    columns: Columns = {}
    with clock("windows"):
        lines = table[table["key"] >= 0].assign(when=lambda part: part["time"].astype("datetime64[us]"))
        rolling = lines.groupby("key").rolling("30D", on="when")["spend"].agg(["sum", "count"])
        window = rolling.set_axis(np.argsort(lines["key"], kind="stable")).sort_index()
        columns["windows"] = {f"30 d {name}": window[name].to_numpy() for name in ("sum", "count")}
    with clock("joined back"):
        earlier = table[(table["key"] >= 0) & (table["time"] < CUT_OFF)]
        columns["joined back"] = _joined_back(earlier, ("stock", "nunique"), events.n_keys)
    return columns


def _table(events: EventLog) -> pd.DataFrame:
    return pd.DataFrame({"key": events.key, "time": events.time, "spend": events.spend, "stock": events.stock})


def _running(lines: pd.DataFrame) -> dict[str, Array]:
    by_key = lines.groupby("key", sort=False)
    spend, age = by_key["spend"], (lines["time"] - lines["time"].iloc[0]) / SPAN
    count, total = by_key.cumcount() + 1, spend.cumsum()
    weight = np.exp2(age)
    sums = lines.assign(squared=lines["spend"] ** 2, weighed=lines["spend"] * weight).groupby("key", sort=False)
    made = {
        "count": count, "sum": total, "mean": total / count, "min": spend.cummin(), "max": spend.cummax(),
        "std": np.sqrt(((sums["squared"].cumsum() - total * total / count) / (count - 1)).clip(lower=0)),
        "lag": spend.shift(1), "decayed": sums["weighed"].cumsum() / weight,
        "days since": by_key["time"].diff() / DAY_US, "stock codes": by_key["new"].cumsum(),
    }  # fmt: skip
    return {name: values.to_numpy() for name, values in made.items()}


def _windows(key: Array, time: Array, spend: Array) -> dict[str, Array]:
    """Return windows of events sorted by key and time: sums up to the event minus sums up to its window's start."""
    time = time - time.min()
    place = key * np.int64(time.max() + SPAN + 1) + time  # windows of one key do not extend into another key
    low = np.searchsorted(place, place - SPAN, side="right")
    sums = np.concatenate([[0.0], np.cumsum(spend)])
    return {"30 d sum": sums[1:] - sums[low], "30 d count": np.arange(1, len(low) + 1) - low}


def _placed(order: Array, values: Array) -> Array:
    out = np.empty_like(values)
    out[order] = values
    return out


def _joined_back(earlier: pd.DataFrame, codes: tuple[str, str], n_keys: int) -> dict[str, Array]:
    made = (
        earlier.groupby("key", sort=False)
        .agg(
            count=("spend", "size"),
            sum=("spend", "sum"),
            mean=("spend", "mean"),
            max=("spend", "max"),
            codes=codes,
            first=("time", "min"),
            last=("time", "max"),
        )
        .reindex(range(n_keys))
    )
    nothing_is_0 = {"count": made["count"], "sum": made["sum"], "stock codes": made["codes"]}
    return {
        **{name: values.fillna(0).to_numpy() for name, values in nothing_is_0.items()},
        "mean": made["mean"].to_numpy(), "max": made["max"].to_numpy(),
        "recency": ((CUT_OFF - made["last"]) / DAY_US).to_numpy(),
        "age": ((CUT_OFF - made["first"]) / DAY_US).to_numpy(),
    }  # fmt: skip
