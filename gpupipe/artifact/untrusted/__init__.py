"""Parsers and checks for untrusted files, applied before libraries that trust what a file declares.

Parsers take bytes and raise ValueError; callers add the path.
"""

from __future__ import annotations

from gpupipe.units import MIB

MOST_TIMES = 200  # maximum ratio of declared to actual size: below 50 in valid files, over 1,000 in bombs
SLACK = MIB  # allowed in addition, for small files of one repeated value


def most_bytes(n_bytes: int) -> int:
    """Return the maximum decompressed size of a file of `n_bytes`."""
    return MOST_TIMES * n_bytes + SLACK
