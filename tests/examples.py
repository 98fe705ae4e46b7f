"""How many examples Hypothesis draws: few and always the same ones, or as many as a profile says.

``--hypothesis-profile=fast`` draws at most 10 for each test, ``--hypothesis-profile=thorough`` draws 1,000, of its own.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings


def examples(n: int, **more: Any) -> settings:
    """Return settings of `n` examples, always the same ones; of a profile that was asked for, as many as it says."""
    asked, usual = settings().max_examples, settings.get_profile("default").max_examples
    if asked > usual:
        return settings(**more)
    return settings(
        max_examples=min(n, asked) if asked < usual else n, derandomize=True, deadline=None, database=None, **more
    )
