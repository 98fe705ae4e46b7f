"""Text features: hashed n-grams, and counts of characters and words, without creating Python strings.

Texts are in Arrow's layout: UTF-8 bytes, and offsets of the start and end of each text. Words, n-grams of words or
characters, and buckets of n-grams match scikit-learn's `HashingVectorizer` with the token pattern ``\\w+`` exactly.

``characters``  character classes per byte
``numpy``       texts split into words or characters (``items``), hashed n-grams (``grams``, ``murmur3``), their weights
                and ``projection``, ``counts``
``walks``       the same for one text, compiled for host and device
``numba``       loops over texts on the host
``cuda``        loops over texts on the device
``kernels``     the declarations
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpupipe_kernels.engines import HostEngine, choose_engine
from gpupipe_kernels.text.numpy.counts import TextCount, count_characters
from gpupipe_kernels.text.numpy.grams import Grams, GramValue, hash_grams
from gpupipe_kernels.text.numpy.items import Analyzer
from gpupipe_kernels.text.numpy.projection import GramCounts, GramProjection, count_grams, project_grams, sublinear
from gpupipe_kernels.typing import Allocate, Array, HostArray

__all__ = [
    "Analyzer",
    "GramCounts",
    "GramProjection",
    "GramValue",
    "Grams",
    "TextCount",
    "count_grams",
    "count_texts",
    "hash_texts",
    "n_bytes",
    "project_texts",
    "sublinear",
]


def hash_texts(
    data: Array,
    offsets: Array,
    grams: Grams,
    n_threads: int = 1,
    engine: HostEngine | None = None,
    allocate: Allocate | None = None,
) -> Array:
    """Return the n-gram vectors of texts; see `hash_grams`.

    Both host engines give the same bits. The device agrees with them up to float32 rounding.

    Parameters
    ----------
    data, offsets : array
        Host or device arrays; device arrays must be contiguous.
    n_threads : int
        Threads of compiled loops on the host.
    engine : {"numpy", "numba"}, optional
        Engine for texts on the host; None: see `gpupipe_kernels.engines`.
    allocate : Allocate, optional
        Allocates arrays on the device, like ``cupy.empty``. By default, Numba allocates.
    """
    if not (isinstance(data, np.ndarray) and isinstance(offsets, np.ndarray)):
        from gpupipe_kernels.text.cuda.engine import hash_on_device

        return hash_on_device(data, offsets, *grams, allocate=allocate)
    if (engine or choose_engine("text", n_bytes(offsets), n_threads)) == "numpy":
        return hash_grams(data, offsets, *grams)
    from gpupipe_kernels.text.numba.engine import hash_on_host

    return hash_on_host(data, offsets, *grams, n_threads=n_threads)


def project_texts(
    data: Array,
    offsets: Array,
    projections: Sequence[GramProjection],
    n_threads: int = 1,
    engine: HostEngine | None = None,
) -> HostArray:
    """Return the sum of projections of texts on the host; see `project_grams`, and `hash_texts` for the parameters.

    Both engines give the same bits.
    """
    assert isinstance(data, np.ndarray) and isinstance(offsets, np.ndarray)
    if (engine or choose_engine("text", n_bytes(offsets), n_threads)) == "numpy":
        return project_grams(data, offsets, projections)
    from gpupipe_kernels.text.numba.engine import project_on_host

    return project_on_host(data, offsets, projections, n_threads)


def count_texts(
    data: Array,
    offsets: Array,
    n_threads: int = 1,
    engine: HostEngine | None = None,
    allocate: Allocate | None = None,
) -> Array:
    """Return the counts of texts; see `count_characters`, and `hash_texts` for the parameters."""
    if not (isinstance(data, np.ndarray) and isinstance(offsets, np.ndarray)):
        from gpupipe_kernels.text.cuda.engine import count_on_device

        return count_on_device(data, offsets, allocate=allocate)
    if (engine or choose_engine("text", n_bytes(offsets), n_threads)) == "numpy":
        return count_characters(data, offsets)
    from gpupipe_kernels.text.numba.engine import count_on_host

    return count_on_host(data, offsets, n_threads=n_threads)


def n_bytes(offsets: HostArray) -> int:
    """Return the number of bytes of the texts between `offsets`."""
    return int(offsets[-1] - offsets[0])
