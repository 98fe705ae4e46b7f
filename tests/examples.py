"""The number of examples that Hypothesis draws: a few fixed ones, or as many as a profile sets.

``--hypothesis-profile=fast`` draws at most 10 for each test, ``--hypothesis-profile=thorough`` draws 1,000 random ones.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(n: int, **more: Any) -> settings:
    """Return settings for `n` fixed examples, or for the number that the requested profile sets."""
    asked, usual = settings().max_examples, settings.get_profile("default").max_examples
    if asked > usual:
        return settings(**more)
    return settings(
        max_examples=min(n, asked) if asked < usual else n, derandomize=True, deadline=None, database=None, **more
    )
