"""Random inputs of the instructions, as a table may hold them."""

from __future__ import annotations

import numpy as np

from gpupipe_kernels.program.opcodes import NAT
from gpupipe_kernels.typing import HostArray


def numbers(rng: np.random.Generator, n: int, k: int = 1) -> HostArray:
    """Return numbers of many sizes, nulls and zeros among them."""
    x = rng.normal(size=(k, n)) * 10.0 ** rng.integers(-6, 7, (k, n))
    return rng.permuted(np.where(rng.random((k, n)) < 0.1, rng.choice([np.nan, 0.0], (k, n)), x), axis=1)


def points(rng: np.random.Generator, n: int, n_kinds: int = 4) -> tuple[HostArray, float]:
    """Return latitudes relative to an origin, and longitudes: neighbours, anything, and antipodes (kind 3)."""
    origin = 40.0
    lat1, lon1 = rng.uniform(-90, 90, n), rng.uniform(-180, 180, n)
    kind = rng.integers(0, n_kinds, n)
    near = rng.normal(size=(2, n)) * 10.0 ** rng.integers(-4, 1, n)
    lat2 = np.select([kind == 0, kind == 3], [lat1 + near[0], -lat1 + near[0]], rng.uniform(-90, 90, n))
    lon2 = np.select([kind == 0, kind == 3], [lon1 + near[1], lon1 + 180 + near[1]], rng.uniform(-180, 180, n))
    block = np.stack([lat1 - origin, lon1, lat2 - origin, lon2])
    block[:, rng.random(n) < 0.05] = np.nan
    return block.astype(np.float32), origin


def times(rng: np.random.Generator, n: int, k: int) -> HostArray:
    """Return times of 313 BC to 11103, nulls among them."""
    found = rng.integers(-(2**56), 2**58, (k, n))
    found[rng.random((k, n)) < 0.1] = NAT
    return found
