"""Made rows that show whether two implementations of a network agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpupipe.models.neural.embeddings import NEVER
from gpupipe.models.neural.fitted.scorer import Served

if TYPE_CHECKING:
    from gpupipe.typing import Array

LEAST_ROWS, MOST_ROWS = 384, 4096


def trial_rows(served: Served) -> Array:
    """Return rows, float32, shape (n, d), always the same for a network.

    Numbers lie on the edges of bins, inside of them, and far beyond the first and the last. Ids are all those of a
    column (up to `MOST_ROWS`), the one before and the one after.
    """
    rng = np.random.default_rng(0)
    cardinalities = served.architecture.cardinalities
    n = min(MOST_ROWS, max(LEAST_ROWS, *(n_ids + 2 for n_ids in cardinalities), 0))
    columns = [rng.choice(values, n) for values in _number_values(served)]
    columns += [rng.permutation(np.arange(n) % (n_ids + 2)) - 1 for n_ids in cardinalities]
    return np.column_stack(columns).astype(np.float32)


def _number_values(served: Served) -> list[Array]:
    embedding = served.network.numbers
    if embedding is None:
        return []
    lower, width = (values.numpy().astype(np.float64) for values in (embedding.lower, embedding.width))
    found: list[Array] = []
    for starts, widths in zip(lower, width, strict=True):
        used = starts < NEVER / 2
        starts, widths = starts[used], widths[used]
        shares = np.linspace(0.0, 1.0, 5)[:, None]
        found.append(np.concatenate([(starts + shares * widths).ravel(), [-1e30, -1e3, 0.0, 1e3, 1e30]]))
    return found
