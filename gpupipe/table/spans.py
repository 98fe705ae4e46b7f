"""Parsers of durations and dates in configurations: ``30d``, ``2011-09-10``. Imports no data library."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from gpupipe.errors import ConfigError

UNITS_US = {
    "us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000,
    "w": 604_800_000_000,
}  # fmt: skip
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d|w)")
LONGEST_US = 2**62


def span_us(text: str) -> int:
    """Return a span such as ``30d``, ``12h`` or ``90min`` in microseconds.

    Raises
    ------
    ValueError
        If it is none, or not longer than nothing.
    """
    match = SPAN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no span of time: a number and one of {', '.join(UNITS_US)}, as in 30d or 90min")
    us = round(float(match[1]) * UNITS_US[match[2]])
    if not 0 < us < LONGEST_US:
        raise ValueError(f"{text!r} is {'too long' if us else 'no time at all'}")
    return us


def gap_us(text: str) -> int:
    """Return a span that may be nothing, such as ``7d`` or ``0``, in microseconds.

    Raises
    ------
    ValueError
        If it is not a span.
    """
    match = SPAN.fullmatch(text.strip())
    return 0 if text.strip() == "0" or (match is not None and not float(match[1])) else span_us(text)


def time_us(text: str) -> int:
    """Return an ISO date or time in microseconds since 1970-01-01 UTC; UTC where it names no zone.

    Raises
    ------
    ConfigError
        If it is none.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(f"{text!r} is no date", fix="write it as in 2011-09-10 or 2011-09-10T12:00:00") from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) * 1_000_000 + moment.microsecond


def is_time(text: str) -> bool:
    """Return whether a text is an ISO date or time."""
    try:
        time_us(text)
    except ConfigError:
        return False
    return True


def _checked_span(text: str) -> str:
    span_us(text)
    return text


def as_text(value: Any) -> Any:
    """Return a date or time, which YAML makes of ``2011-09-10``, as ISO text; anything else as it is."""
    return value.isoformat() if isinstance(value, date | datetime) else value


def _checked_gap(text: str) -> str:
    gap_us(text)
    return text


def _zero_as_text(value: Any) -> Any:
    return "0" if value == 0 and not isinstance(value, bool) else value


Gap = Annotated[
    str, BeforeValidator(_zero_as_text, json_schema_input_type=str | Literal[0]), AfterValidator(_checked_gap)
]
"""A span of time in a configuration that may be 0."""

Span = Annotated[str, AfterValidator(_checked_span)]
"""A span of time in a configuration."""

AsOf = Annotated[
    str, BeforeValidator(as_text), Field(description="A date (2011-09-10), or a datetime column of the main table.")
]
"""A cut-off in a configuration: YAML makes a date of ``2011-09-10``."""
