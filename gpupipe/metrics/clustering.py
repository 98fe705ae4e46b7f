"""Metrics of clusters and embeddings, which have no true values: they are compared with the feature matrix.

All are computed on at most `ROWS` rows, drawn with a fixed seed, because the silhouette compares every pair of rows.
The rows are copied to the host, where scikit-learn has all of these metrics; cuML has only some of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gpupipe.metrics.predictions import UnlabelledPredictions
from gpupipe.metrics.registry import metric
from gpupipe.random_streams import make_generator
from gpupipe.typing import Array

ROWS = 10_000
ON_THE_HOST = (
    f"scikit-learn computes metrics without a target, on at most {ROWS:,} rows"  # reason, in a run on a device
)


@metric("silhouette", ("clustering",))
def silhouette(rows: UnlabelledPredictions) -> float:
    """Mean over rows of the relative distance to the next cluster compared with the own cluster, from -1 to 1."""
    from sklearn.metrics import silhouette_score

    return _of_clusters(silhouette_score, rows)


@metric("davies_bouldin", ("clustering",), greater_is_better=False)
def davies_bouldin(rows: UnlabelledPredictions) -> float:
    """Mean over clusters of the similarity to the most similar cluster: their widths divided by their distance."""
    from sklearn.metrics import davies_bouldin_score

    return _of_clusters(davies_bouldin_score, rows)


@metric("calinski_harabasz", ("clustering",))
def calinski_harabasz(rows: UnlabelledPredictions) -> float:
    """Ratio of the variance between clusters to the variance within clusters, corrected for their number."""
    from sklearn.metrics import calinski_harabasz_score

    return _of_clusters(calinski_harabasz_score, rows)


@metric("reconstruction_r2", ("embedding",))
def reconstruction_r2(rows: UnlabelledPredictions) -> float:
    """Fraction of the variance of the features that a linear map reconstructs from the embedding."""
    import numpy as np

    X = rows.X.astype(np.float64) - rows.X.mean(axis=0)
    embedding = rows.found.astype(np.float64) - rows.found.mean(axis=0)
    total = float((X**2).sum())
    if total == 0.0:
        return math.nan
    restored = embedding @ np.linalg.lstsq(embedding, X, rcond=None)[0]
    return 1.0 - float(((X - restored) ** 2).sum()) / total


def sampled_rows(n_rows: int) -> Array | None:
    """Return the sampled row numbers, int64, in no order; None for all rows."""

    return None if n_rows <= ROWS else make_generator(0, "clustered rows").choice(n_rows, ROWS, replace=False)


def _of_clusters(score: Callable[..., float], rows: UnlabelledPredictions) -> float:
    import numpy as np

    if not 2 <= len(np.unique(rows.found)) < len(rows.found):
        return math.nan
    return float(score(rows.X, rows.found))
