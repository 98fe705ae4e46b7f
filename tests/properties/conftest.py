"""The profile for a long look by hand: ``pytest -n 0 tests/properties --hypothesis-profile=thorough``."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("thorough", max_examples=1000, deadline=None, database=None, print_blob=True)
