"""Cases of a parametrised test that run with ``--nightly`` only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def nightly_unless(is_daily: Callable[..., bool], cases: Iterable[Any]) -> list[Any]:
    """Return the cases, those for which `is_daily` is false with the marker ``nightly``.

    A case is a value, or a tuple of the values of several arguments.
    """
    every = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=[pytest.mark.nightly] * (not is_daily(*case))) for case in every]
