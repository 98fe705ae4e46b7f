"""10 ways to plant values that mark missing values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.planted.leaks import Rng, start_of

SENTINELS: list[Callable[[pd.DataFrame, str, Rng], list[tuple[str, Any]]]] = []


def sentinel(make: Callable[[pd.DataFrame, str, Rng], list[tuple[str, Any]]]) -> Any:
    """Register a function that changes a frame and returns columns and values to be found."""
    SENTINELS.append(make)
    return make


def _mark(frame: pd.DataFrame, target: str, rng: Rng, values: list[Any], n: int = 1, share: float = 0.05) -> Any:
    """Write `values` into `n` numeric columns that do not reach them, or into new ones; return what is to be found."""
    own = frame.attrs["inputs"]
    numbers = [
        c for c in own if c != target and frame[c].dtype.kind in "iuf" and 20 <= frame[c].nunique() < 0.9 * len(frame)
    ]
    reach = {c: max(abs(frame[c].max()), abs(frame[c].min()), np.ptp(frame[c].dropna())) for c in numbers}
    fits = [c for c in rng.permutation(numbers) if 3 * reach[c] < min(map(abs, values))][:n]
    for i in range(len(fits), n):
        fits.append(f"reading {values[0]} {i}")
        frame[fits[-1]] = rng.normal(20, 5, len(frame)).round(2)
    for name in fits:
        rows = rng.random(len(frame)) < share
        frame[name] = frame[name].mask(rows, rng.choice(values, len(frame)))
    return [(name, value) for name in fits for value in values]


@sentinel
def minus_999(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """-999 in a number."""
    return _mark(frame, target, rng, [-999])


@sentinel
def minus_9999_in_several(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """-9999 in three numbers."""
    return _mark(frame, target, rng, [-9999], n=3)


@sentinel
def minus_99_9(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """-99.9 in a number."""
    return _mark(frame, target, rng, [-99.9])


@sentinel
def nines(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """9999 in a number."""
    return _mark(frame, target, rng, [9999])


@sentinel
def rare_nines(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """99999 in 2 % of the rows of a number."""
    return _mark(frame, target, rng, [99999], share=0.02)


@sentinel
def minus_200_of_sensors(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """-200 in two readings."""
    return _mark(frame, target, rng, [-200], n=2)


@sentinel
def two_codes(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """998 and 999 in a number."""
    return _mark(frame, target, rng, [998, 999])


def _mark_dates(frame: pd.DataFrame, rng: Rng, text: str, time_format: str) -> Any:
    name = f"date of {text}"
    frame[name] = pd.Series(start_of(np.ones(len(frame)), rng)).dt.strftime(time_format)
    frame.loc[rng.random(len(frame)) < 0.05, name] = text
    return [(name, text)]


@sentinel
def first_of_1900(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """1900-01-01 in a date."""
    return _mark_dates(frame, rng, "1900-01-01", "%Y-%m-%d")


@sentinel
def end_of_9999(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """31/12/9999 in a date."""
    return _mark_dates(frame, rng, "31/12/9999", "%d/%m/%Y")


@sentinel
def minus_999_in_target(frame: pd.DataFrame, target: str, rng: Rng) -> Any:
    """-999 or -99999 in a number to predict; -32768 in a number if the target is a class."""
    y = frame[target]
    if y.dtype.kind not in "iuf" or y.nunique() <= 10:
        return _mark(frame, target, rng, [-32768])
    value = -999 if np.ptp(y) < 500 else -99999999
    frame[target] = y.mask(rng.random(len(frame)) < 0.05, value)
    return [(target, value)]
