"""Metrics of clusters and embeddings, which have no truth to be compared with: the feature matrix stands for it.

All are measured on at most `ROWS` rows, drawn with a fixed seed: the silhouette compares every row with every other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gpupipe.metrics.registry import Array, metric

ROWS = 10_000


@metric("silhouette", "cluster", ("clustering",))
def silhouette(X: Array, label: Array) -> float:
    """How much nearer rows are to their own cluster than to the next one, -1 to 1."""
    from sklearn.metrics import silhouette_score

    return _of_clusters(silhouette_score, X, label)


@metric("davies_bouldin", "cluster", ("clustering",), greater_is_better=False)
def davies_bouldin(X: Array, label: Array) -> float:
    """Mean over clusters of how wide they are against the distance to the most similar one."""
    from sklearn.metrics import davies_bouldin_score

    return _of_clusters(davies_bouldin_score, X, label)


@metric("calinski_harabasz", "cluster", ("clustering",))
def calinski_harabasz(X: Array, label: Array) -> float:
    """Spread between clusters against the spread inside them."""
    from sklearn.metrics import calinski_harabasz_score

    return _of_clusters(calinski_harabasz_score, X, label)


@metric("reconstruction_r2", "embedding", ("embedding",))
def reconstruction_r2(X: Array, embedding: Array) -> float:
    """Share of the variance of the features that a linear map can restore from the embedding."""
    import numpy as np

    X, embedding = _sampled(X, embedding)
    X, embedding = X.astype(np.float64) - X.mean(axis=0), embedding.astype(np.float64) - embedding.mean(axis=0)
    total = float((X**2).sum())
    if total == 0.0:
        return math.nan
    restored = embedding @ np.linalg.lstsq(embedding, X, rcond=None)[0]
    return 1.0 - float(((X - restored) ** 2).sum()) / total


def _of_clusters(score: Callable[..., float], X: Array, label: Array) -> float:
    import numpy as np

    X, label = _sampled(X, label)
    if not 2 <= len(np.unique(label)) < len(label):
        return math.nan
    return float(score(X, label))


def _sampled(X: Array, other: Array) -> tuple[Array, Array]:
    import numpy as np

    if len(X) <= ROWS:
        return X, other
    rows = np.random.default_rng(0).choice(len(X), ROWS, replace=False)
    return X[rows], other[rows]
