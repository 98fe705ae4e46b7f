"""Order of the rows of each group, compared with a random order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupipe.report.text import number


@dataclass(frozen=True, kw_only=True)
class NdcgRow:
    """NDCG of the first rows of each group.

    `cutoff` is their number. `ndcg` and `random_ndcg` are those of the predicted order, and of a random one.
    """

    cutoff: int
    ndcg: float
    random_ndcg: float


def ndcg_sentences(found: Sequence[NdcgRow], target: str) -> list[str]:
    """Return sentences about the NDCG of the first rows of the groups."""
    last = found[-1]
    return [
        f"The NDCG of the first {last.cutoff} rows of a group is {number(last.ndcg)} by {target}; in random order it "
        f"would be {number(last.random_ndcg)}."
    ]
