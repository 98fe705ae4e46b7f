"""How many examples a property is shown."""

from __future__ import annotations

from hypothesis import settings


def few(n: int) -> settings:
    """Return the settings of `n` examples, always the same; where a profile was asked for, as many as it says."""
    if settings().max_examples != settings.get_profile("default").max_examples:
        return settings()
    return settings(max_examples=n, derandomize=True, deadline=None, database=None)
