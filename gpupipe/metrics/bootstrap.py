"""Sampling errors of metrics, by the bootstrap (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpupipe.random_streams import make_generator
from gpupipe.typing import Array

N_RESAMPLES = 100
FEWEST_ROWS = 20  # fewer say too little about their own spread
Z_95 = 1.959964  # of a normal distribution, two-sided


def sampling_errors(
    score: Callable[[Array], Mapping[str, float]], values: Mapping[str, float], y: Array, most_rows: int, by_class: bool
) -> dict[str, Array]:
    """Return the errors of metrics in samples of rows with replacement: float64, shape (100,), for each metric.

    At most `most_rows` rows are sampled; the error of more rows is smaller in proportion to the root of their number.

    Parameters
    ----------
    score : callable
        Returns the metrics of rows, given as row numbers.
    values : mapping of str to float
        The metrics of all rows.
    y : array of float, shape (n,) or (n, k)
        Targets of all rows, on the host.
    most_rows : int
    by_class : bool
        Draw as many rows of each class, or of each set of classes of several targets, as there are.
    """
    import numpy as np

    n = len(y)
    base = np.arange(n) if n <= most_rows else np.linspace(0, n - 1, most_rows).astype(np.int64)
    strata = np.unique(y[base].reshape(len(base), -1), axis=0, return_inverse=True)[1].ravel() * by_class
    groups = [np.flatnonzero(strata == stratum) for stratum in range(strata.max() + 1)]
    generator = make_generator(0, "bootstrap")
    draws = [
        score(base[np.concatenate([generator.choice(group, len(group)) for group in groups])])
        for _ in range(N_RESAMPLES)
    ]
    scale = np.sqrt(len(base) / n)
    return {name: (np.array([draw[name] for draw in draws]) - value) * scale for name, value in values.items()}
