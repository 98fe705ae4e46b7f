"""Columns of `benchmarks.keyed` in polars: a lazy query per group, on all threads, sorted if that is faster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from benchmarks.keyed.event_log import CUT_OFF, SPAN, EventLog
from gpupipe.bench.clock import StageClock
from gpupipe.units import DAY_US

if TYPE_CHECKING:
    from benchmarks.keyed.event_log import Columns

SPEND = pl.col("spend")
TIME = pl.col("time")
STOCK = pl.col("stock")


def best(events: EventLog, clock: StageClock) -> Columns:
    """Compute all columns."""
    table = pl.DataFrame({"key": events.key, "time": events.time, "spend": events.spend, "stock": events.stock})
    known = table.lazy().filter(pl.col("key") >= 0)
    with clock("ordering"):
        lines = known.with_row_index("line").sort("key", maintain_order=True).collect()
        lines = lines.with_columns(pl.col("key").set_sorted())
        back = lines["line"].arg_sort()
    columns: Columns = {}
    with clock("running"):
        columns["running"] = _placed(_running(lines.lazy(), events.time[0]), back)
    with clock("windows"):
        columns["windows"] = _placed(_windows(lines.lazy()), back)
    with clock("joined back"):
        columns["joined back"] = _arrays(_joined_back(known, events.n_keys).collect())
    return columns


def _running(lines: pl.LazyFrame, start: int) -> pl.LazyFrame:
    weight = ((TIME - start) * (math.log(2) / SPAN)).exp()
    count, total = pl.col("count"), pl.col("sum")
    by_key = lines.with_columns(weight=weight).group_by("key", maintain_order=True)
    walked = by_key.agg(
        SPEND.cum_count().alias("count"),
        SPEND.cum_sum().alias("sum"),
        SPEND.cum_min().alias("min"),
        SPEND.cum_max().alias("max"),
        (SPEND * SPEND).cum_sum().alias("squared"),
        SPEND.shift(1).alias("lag"),
        (SPEND * pl.col("weight")).cum_sum().alias("weighed"),
        pl.col("weight"),
        TIME.diff().alias("since"),
        STOCK.is_first_distinct().cum_sum().alias("stock codes"),
    ).explode(pl.exclude("key"))
    n = count.cast(pl.Float64)
    return walked.select(
        "count",
        "sum",
        (total / n).alias("mean"),
        "min",
        "max",
        ((pl.col("squared") - total * total / n) / (n - 1)).clip(0).sqrt().alias("std"),
        "lag",
        (pl.col("weighed") / pl.col("weight")).alias("decayed"),
        (pl.col("since") / DAY_US).alias("days since"),
        "stock codes",
    )


def _windows(lines: pl.LazyFrame) -> pl.LazyFrame:
    """Return sums up to the event minus sums up to its window's start, found by polars' asof join.

    ``rolling_sum_by`` is equally fast, but includes all events of the same minute, which is a different result.
    """
    place = pl.col("key").cast(pl.Int64) * (TIME.max() - TIME.min() + SPAN + 1) + TIME - TIME.min()
    walked = lines.select(
        place.set_sorted().alias("place"), SPEND.cum_sum().alias("sum"), pl.int_range(1, pl.len() + 1).alias("n")
    )
    left = walked.select((pl.col("place") - SPAN).set_sorted(), pl.col("sum").alias("to"), pl.col("n").alias("to_n"))
    both = left.join_asof(walked, on="place")
    return both.select(
        (pl.col("to") - pl.col("sum").fill_null(0.0)).alias("30 d sum"),
        (pl.col("to_n") - pl.col("n").fill_null(0)).alias("30 d count"),
    )


def _joined_back(known: pl.LazyFrame, n_keys: int) -> pl.LazyFrame:
    made = (
        known.filter(TIME < CUT_OFF)
        .group_by("key")
        .agg(
            pl.len().alias("count"),
            SPEND.sum().alias("sum"),
            SPEND.mean().alias("mean"),
            SPEND.max().alias("max"),
            STOCK.n_unique().alias("stock codes"),
            ((CUT_OFF - TIME.max()) / DAY_US).alias("recency"),
            ((CUT_OFF - TIME.min()) / DAY_US).alias("age"),
        )
    )
    customers = pl.LazyFrame({"key": range(n_keys)}, schema={"key": pl.Int32})
    joined = customers.join(made, on="key", how="left", maintain_order="left")
    return joined.with_columns(pl.col("count", "sum", "stock codes").fill_null(0)).drop("key")


def _placed(made: pl.LazyFrame, back: pl.Series) -> dict[str, Any]:
    """Return the columns in the order of the events, as float32 like gpupipe, which moves fewer bytes."""
    narrow = made.select(pl.all().cast(pl.Float32)).collect()
    return _arrays(narrow.lazy().select(pl.all().gather(pl.lit(back))).collect())


def _arrays(frame: pl.DataFrame) -> dict[str, Any]:
    return {name: frame[name].to_numpy() for name in frame.columns}
