"""Background rows: the training rows that contributions are measured against."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpupipe.typing import HostArray

BACKGROUND_ROWS = 100  # as many as shap's explainers keep; the time of most methods is proportional to it


def draw_background(X: HostArray, seed: int) -> HostArray:
    """Return at most 100 rows of a training matrix, drawn at random without replacement, in their order.

    Parameters
    ----------
    X : array of float32, shape (n, d)
        Rows on the host, in any memory layout. Missing values stay NaN.
    seed : int

    Returns
    -------
    array of float32, shape (min(n, 100), d)
        A row-major copy.

    Raises
    ------
    ValueError
        If there are no rows.
    """
    import numpy as np

    if len(X) == 0:
        raise ValueError("expected at least one training row to draw background rows from")
    chosen = np.random.default_rng(seed).choice(len(X), min(len(X), BACKGROUND_ROWS), replace=False)
    drawn: HostArray = np.array(X[np.sort(chosen)], np.float32, order="C")
    return drawn
