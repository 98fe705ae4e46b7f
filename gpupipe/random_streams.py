"""Independent streams of random numbers: one for each purpose of a run.

The columns of a table may have been made by ``numpy.random.default_rng(seed)`` or ``numpy.random.seed(seed)`` with the
seed of the run. If rows were drawn by the same numbers, such a column would decide which rows are tested. Each purpose
therefore has its own child of the seed's `SeedSequence`, whose key is a hash of the purpose: no ``spawn()`` reaches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from zlib import crc32

if TYPE_CHECKING:
    import numpy as np

Purpose = Literal[
    "test rows",
    "test groups of times",
    "folds",
    "validation rows",
    "early stopping",
    "folds of a search",
    "trials of a search",
    "importances of parameters",
    "folds of an ensemble",
    "weights of an ensemble",
    "folds of decisions",
    "folds of encodings",
    "folds of calibration",
    "model",
    "generated features",
    "trees of generated features",
    "clustered rows",
    "residuals",
    "explained rows",
    "rows of importances",
    "rows with contributions",
    "permutation importance",
    "permutations of players",
    "bootstrap",
    "labels of rows",
    "starter",
    "sampled texts",
    "components of texts",
    "trial rows",
    "generated events",
]
"""Purposes of random numbers. Renaming one changes its numbers."""


def make_generator(seed: int, purpose: Purpose, *position: int) -> np.random.Generator:
    """Return a generator of the stream of a purpose.

    - `seed`: from 0 on
    - `position`: number of the fold, epoch or trial, if each has its own stream

    Examples
    --------
    >>> make_generator(0, "test rows").random() == make_generator(0, "folds").random()
    False
    """
    import numpy as np

    return np.random.default_rng(_sequence(seed, purpose, position))


def derive_seed(seed: int, purpose: Purpose, *position: int) -> int:
    """Return an integer below 2**31, for libraries that are seeded by one; parameters as for `make_generator`.

    Examples
    --------
    >>> derive_seed(0, "model") == derive_seed(0, "model"), derive_seed(0, "model") == derive_seed(1, "model")
    (True, False)
    """
    return int(_sequence(seed, purpose, position).generate_state(1)[0]) >> 1


def _sequence(seed: int, purpose: Purpose, position: tuple[int, ...]) -> np.random.SeedSequence:
    from numpy.random import SeedSequence

    return SeedSequence(seed, spawn_key=(crc32(purpose.encode()), *position))
