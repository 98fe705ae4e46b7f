"""Adversarial event tables: nulls, ties in time, one key with half of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpupipe_kernels.program.opcodes import NAT

ODD_VALUES = np.array([np.inf, -np.inf, -0.0, 1e200, -1e200, 5e-324, 0.0])


@dataclass(frozen=True)
class Table:
    """Events and queries: key, time, a column of numbers, a column of codes, and cut-offs per key."""

    key: np.ndarray
    time: np.ndarray
    x: np.ndarray
    codes: np.ndarray
    query_key: np.ndarray
    cutoff: np.ndarray


def table(n: int, seed: int = 0, odd: bool = False) -> Table:
    rng = np.random.default_rng([seed, n])
    key = rng.integers(-1, n // 6 + 2, n).astype(np.int32)
    key[rng.random(n) < 0.5] = 1
    x = rng.normal(3, 10, n).round(2)
    x[rng.random(n) < 0.2] = np.nan
    if odd:
        x = np.where(rng.random(n) < 0.2, rng.choice(ODD_VALUES, n), x)
    n_queries = n // 2 + 3
    return Table(
        key,
        with_gaps(rng, rng.integers(0, 60, n) * 10, NAT),
        x,
        rng.integers(0, 5, n).astype(np.int32),
        rng.integers(-1, n // 6 + 4, n_queries).astype(np.int32),
        with_gaps(rng, rng.integers(-5, 700, n_queries), NAT),
    )


def with_gaps(rng: np.random.Generator, values: np.ndarray, null: int) -> np.ndarray:
    return np.where(rng.random(len(values)) < 0.1, null, values)
