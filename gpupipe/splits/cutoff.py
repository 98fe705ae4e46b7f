"""The time or number that a cutoff stands for."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_cutoff(cutoff: str) -> tuple[float, bool]:
    """Return a number as it is, or a time as microseconds since 1970 UTC; and whether it was a time.

    Raises
    ------
    ValueError
        If it is neither.
    """
    try:
        return float(cutoff), False
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(cutoff)
    except ValueError:
        raise ValueError(f"{cutoff!r} is neither a date such as 2012-10-01 nor a number") from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds, True
