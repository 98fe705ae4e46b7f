"""The time or number that a cutoff stands for."""

from __future__ import annotations

from gpupipe.units import parse_time_us


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
        return parse_time_us(cutoff), True
    except ValueError:
        raise ValueError(f"{cutoff!r} is neither a date such as 2012-10-01 nor a number") from None
