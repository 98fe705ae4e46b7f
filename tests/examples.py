"""The number of examples that Hypothesis draws: a few fixed ones, or as many as a profile sets.

By day at most `DAILY` for each test, since most faults show in the first few; ``--nightly`` draws all.
``--hypothesis-profile=fast`` draws at most 10 for each test, ``--hypothesis-profile=thorough`` draws 1,000 random ones.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

DAILY = 15
bounds = {"most": DAILY}


def draw_all() -> None:
    """Draw all examples of a test, in modules that are imported from now on."""
    bounds.clear()


def examples(n: int, **more: Any) -> settings:
    """Return settings for `n` fixed examples, or for the number that the requested profile sets."""
    n = min(n, bounds.get("most", n))
    asked, usual = settings().max_examples, settings.get_profile("default").max_examples
    if asked > usual:
        return settings(**more)
    return settings(
        max_examples=min(n, asked) if asked < usual else n, derandomize=True, deadline=None, database=None, **more
    )
