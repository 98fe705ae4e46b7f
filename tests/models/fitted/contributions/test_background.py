"""Background rows drawn from a training matrix."""

from __future__ import annotations

import numpy as np
import pytest

from gpupipe.models.fitted.contributions.background import draw_background


@pytest.mark.parametrize("n", [1, 99, 100, 101, 5_000])
def test_at_most_100_distinct_training_rows_are_drawn_in_their_order(n: int) -> None:
    X = np.asfortranarray(np.arange(3 * n, dtype=np.float32).reshape(n, 3))
    X[:, 2] = np.nan
    drawn = draw_background(X, seed=5)
    assert drawn.dtype == np.float32 and drawn.flags.c_contiguous and not np.shares_memory(drawn, X)
    assert len(drawn) == min(n, 100)
    assert (np.diff(drawn[:, 0]) > 0).all()
    np.testing.assert_array_equal(drawn, X[(drawn[:, 0] / 3).astype(int)])
    np.testing.assert_array_equal(draw_background(X, seed=5), drawn)
    assert n <= 100 or not np.array_equal(draw_background(X, seed=6)[:, 0], drawn[:, 0])


def test_a_matrix_without_rows_is_refused() -> None:
    with pytest.raises(ValueError):
        draw_background(np.empty((0, 3), np.float32), seed=0)
