"""Selection of the levels of a category that are frequent; the remaining ones share the reserved code RARE."""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.features.program.expressions import CategoryExpr


def select_frequent(
    column: CategoryExpr, counts: Sequence[int], max_categories: int | None, min_frequency: int | None
) -> list[int]:
    """Return the codes of the levels that keep a place of their own, in the order of the codes.

    Parameters
    ----------
    column : CategoryExpr
    counts : sequence of int
        Training rows per code.
    max_categories : int, optional
        Keep at most so many: the most frequent ones, ties to the lower code.
    min_frequency : int, optional
        Keep those with at least so many training rows.
    """
    codes = [c for c in range(3, column.n_codes) if counts[c] >= max(1, min_frequency or 0)]
    if max_categories is not None and len(codes) > max_categories:
        codes = sorted(codes, key=lambda c: (-counts[c], c))[:max_categories]
    return sorted(codes)
