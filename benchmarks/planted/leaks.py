"""20 ways to plant columns that restate the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

Columns = dict[str, Any]
Rng = np.random.Generator
Event = Any  # bool, shape (n_rows,): the rows of a class, or those in which the number to predict is above a limit
LEAKS: list[Callable[[Event, Any, Rng], tuple[Columns, list[str]]]] = []


def leak(names: str) -> Callable[[Callable[[Event, Any, Rng], Columns]], Any]:
    """Register a function that returns columns, of which `names` must be dropped."""

    def register(make: Callable[[Event, Any, Rng], Columns]) -> Any:
        def planted(event: Event, y: Any, rng: Rng) -> tuple[Columns, list[str]]:
            columns = {f"{make.__name__}_{name}": values for name, values in make(event, y, rng).items()}
            return columns, [f"{make.__name__}_{name}" for name in names.split()]

        planted.__name__, planted.__doc__ = make.__name__, make.__doc__
        LEAKS.append(planted)
        return planted

    return register


def _amounts(event: Event, rng: Rng) -> Any:
    return rng.gamma(2, 50, len(event)).round(2) + 1


def _reasons(event: Event, rng: Rng) -> Any:
    return rng.choice(["price", "moved", "service", "quality", "other"], len(event))


def start_of(event: Event, rng: Rng) -> Any:
    """Return a random day for each row."""
    return pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 700, len(event)), "D")


@leak("x")
def number_filled_for_event(event: Event, y: Any, rng: Rng) -> Columns:
    """A number in the rows of the event only."""
    return {"x": np.where(event, _amounts(event, rng), np.nan)}


@leak("x reason")
def two_columns_filled_for_event(event: Event, y: Any, rng: Rng) -> Columns:
    """A number and a text with the same nulls."""
    return {"x": np.where(event, _amounts(event, rng), np.nan), "reason": np.where(event, _reasons(event, rng), None)}


@leak("x")
def filled_for_most_of_event(event: Event, y: Any, rng: Rng) -> Columns:
    """A text in 70 % of the rows of the event."""
    return {"x": np.where(event & (rng.random(len(event)) < 0.7), _reasons(event, rng), None)}


@leak("x")
def null_for_event(event: Event, y: Any, rng: Rng) -> Columns:
    """A number in all rows but those of the event."""
    return {"x": np.where(event, np.nan, _amounts(event, rng))}


@leak("x")
def zero_or_null_otherwise(event: Event, y: Any, rng: Rng) -> Columns:
    """A number above 0 for the event, 0 or null otherwise."""
    return {"x": np.where(event, _amounts(event, rng), np.where(rng.random(len(event)) < 0.5, 0.0, np.nan))}


@leak("x")
def zero_otherwise(event: Event, y: Any, rng: Rng) -> Columns:
    """An amount for the event, 0 otherwise."""
    return {"x": np.where(event, _amounts(event, rng), 0.0)}


@leak("x")
def minus_one_otherwise(event: Event, y: Any, rng: Rng) -> Columns:
    """A whole number for the event, -1 otherwise."""
    return {"x": np.where(event, rng.integers(0, 60, len(event)), -1)}


@leak("x")
def reason_or_none(event: Event, y: Any, rng: Rng) -> Columns:
    """A reason for the event, the text "no reason" otherwise."""
    return {"x": np.where(event, _reasons(event, rng), "no reason")}


@leak("x")
def free_text_for_event(event: Event, y: Any, rng: Rng) -> Columns:
    """Sentences in the rows of the event only."""
    words = _reasons(event, rng)
    return {
        "x": [
            f"client {i} said that the {w} is bad" if e else None
            for i, (w, e) in enumerate(zip(words, event, strict=True))
        ]
    }


@leak("x")
def flag_of_event(event: Event, y: Any, rng: Rng) -> Columns:
    """1 for the event, else 0."""
    return {"x": event.astype(int)}


@leak("x")
def flag_with_errors(event: Event, y: Any, rng: Rng) -> Columns:
    """The event as text, wrong in 2 of 1,000 rows."""
    return {"x": np.where(event ^ (rng.random(len(event)) < 0.002), "done", "open")}


@leak("x")
def finer_label(event: Event, y: Any, rng: Rng) -> Columns:
    """One of three codes for the event, one of three others otherwise."""
    return {"x": np.where(event, 1, 4) + rng.integers(0, 3, len(event))}


@leak("x")
def copy_of_target(event: Event, y: Any, rng: Rng) -> Columns:
    """The target in other units, or in other words."""
    return {"x": y * 2.54 + 1 if y.dtype.kind in "iuf" else "is " + pd.Series(y).astype(str)}


@leak("x")
def copy_with_noise(event: Event, y: Any, rng: Rng) -> Columns:
    """The target with relative noise of 0.001, or wrong in 2 of 1,000 rows."""
    if y.dtype.kind in "iuf":
        return {"x": y + rng.normal(0, 0.001 * np.std(y), len(y))}
    return {"x": "is " + pd.Series(np.where(rng.random(len(y)) < 0.002, rng.permutation(y), y)).astype(str)}


@leak("a b")
def nulls_of_two_columns(event: Event, y: Any, rng: Rng) -> Columns:
    """Two numbers, of which exactly one is null in the rows of the event."""
    first = rng.random(len(event)) < 0.5
    return {name: np.where(rows, _amounts(event, rng), np.nan) for name, rows in (("a", first), ("b", first ^ event))}


@leak("date")
def date_for_event(event: Event, y: Any, rng: Rng) -> Columns:
    """A date in the rows of the event only."""
    return {"date": pd.Series(start_of(event, rng)).where(event)}


@leak("closed")
def closing_date(event: Event, y: Any, rng: Rng) -> Columns:
    """A start, and an end after 90 days, or earlier for the event."""
    start = start_of(event, rng)
    days = np.where(event, rng.integers(0, 90, len(event)), 90)
    return {"started": start, "closed": start + pd.to_timedelta(days, "D")}


@leak("closed days")
def closing_date_and_days(event: Event, y: Any, rng: Rng) -> Columns:
    """A start, an end that is noisily earlier for the event, and the days between them."""
    start = start_of(event, rng)
    days = np.where(event, rng.integers(1, 60, len(event)), rng.integers(58, 120, len(event)))
    return {"started": start, "closed": start + pd.to_timedelta(days, "D"), "days": days}


@leak("seen")
def last_seen(event: Event, y: Any, rng: Rng) -> Columns:
    """The day of the extract, or an earlier one for the event."""
    days = np.where(event, rng.integers(1, 300, len(event)), 0)
    return {"joined": start_of(event, rng), "seen": pd.Timestamp("2023-09-30") - pd.to_timedelta(days, "D")}


@leak("x")
def days_until_event(event: Event, y: Any, rng: Rng) -> Columns:
    """The length of an observation: 365 days, or fewer for the event."""
    return {"x": np.where(event, rng.integers(1, 365, len(event)), 365)}
