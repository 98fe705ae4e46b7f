"""Projections of weighted n-grams in NumPy: the readable reference, also used for small inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.text.characters import blocks
from gpupipe_kernels.text.numpy.grams import slices_of
from gpupipe_kernels.text.numpy.items import items_of
from gpupipe_kernels.text.numpy.murmur3 import murmur3
from gpupipe_kernels.typing import HostArray

MAX_COUNT = 4_095


class GramProjection(NamedTuple):
    """Weights of n-grams, and the components that texts are projected on.

    Attributes
    ----------
    analyzer, n_min, n_max : int
        As in `gpupipe_kernels.text.Grams`; the hash of an n-gram gives its bucket there, too.
    slots : ndarray of int32, shape (n_buckets,)
        Row of each bucket in `idf` and `components`; -1: its n-grams are ignored.
    idf : ndarray of float32, shape (n_slots,)
        Inverse document frequency of the n-grams of a bucket.
    components : ndarray of float32, shape (n_slots, k)
    """

    analyzer: int
    n_min: int
    n_max: int
    slots: HostArray
    idf: HostArray
    components: HostArray


class GramCounts(NamedTuple):
    """Number of n-grams per text and bucket, without zeros, ordered by text and bucket; three arrays of one length."""

    texts: HostArray
    buckets: HostArray
    counts: HostArray


@cache
def sublinear() -> npt.NDArray[np.float64]:
    """Return ``1 + log(n)`` for each count n up to `MAX_COUNT`, and 0 for 0; larger counts have the last value."""
    found = np.append(0.0, 1.0 + np.log(np.arange(1, MAX_COUNT + 1, dtype=np.float64)))
    found.flags.writeable = False  # one shared table
    return found


def count_grams(
    data: HostArray, offsets: HostArray, analyzer: int, n_min: int, n_max: int, n_buckets: int
) -> GramCounts:
    """Return the n-gram counts of texts; parameters as in `hash_grams`."""
    found = [GramCounts(*np.empty((3, 0), np.int64))]
    for block in blocks(offsets):
        own = _count_block(data, offsets[block.start : block.stop + 1], analyzer, n_min, n_max, n_buckets)
        found.append(own._replace(texts=own.texts + block.start))
    return GramCounts(*map(np.concatenate, zip(*found, strict=True)))


def _count_block(
    data: HostArray, offsets: HostArray, analyzer: int, n_min: int, n_max: int, n_buckets: int
) -> GramCounts:
    first = int(offsets[0])
    items = items_of(data[first : int(offsets[-1])], offsets - first, analyzer)
    starts, stops, texts = slices_of(items, analyzer, n_min, n_max)
    hashes = murmur3(items.stream, starts, stops).view(np.int32)
    cells, counts = np.unique(texts * n_buckets + np.abs(hashes.astype(np.int64)) % n_buckets, return_counts=True)
    return GramCounts(cells // n_buckets, cells % n_buckets, counts)


def project_grams(
    data: HostArray, offsets: HostArray, projections: Sequence[GramProjection]
) -> npt.NDArray[np.float64]:
    """Return the sum of projections of texts, each of a vector of weighted n-grams scaled to Euclidean length 1.

    The weight of a bucket is ``(1 + log(count)) * idf``. Sums are accumulated in float64 in the order of the buckets,
    so that the bits do not depend on the other texts.

    Parameters
    ----------
    data : ndarray of uint8, shape (bytes,)
        UTF-8.
    offsets : ndarray of int64, shape (texts + 1,)
        Text i is ``data[offsets[i]:offsets[i + 1]]``, as in Arrow.
    projections : sequence of GramProjection
        One or more, with the same number of components.

    Returns
    -------
    ndarray of float64, shape (k, texts)
        A text without known n-grams is zero.
    """
    out = np.zeros((projections[0].components.shape[1], len(offsets) - 1))
    for own in projections:
        for block in blocks(offsets):
            _project_block(data, offsets[block.start : block.stop + 1], own, out[:, block])
    return out


def _project_block(data: HostArray, offsets: HostArray, own: GramProjection, out: HostArray) -> None:
    found = _count_block(data, offsets, own.analyzer, own.n_min, own.n_max, len(own.slots))
    known = np.flatnonzero(own.slots[found.buckets] >= 0)
    texts, slots = found.texts[known], own.slots[found.buckets[known]]
    weights = sublinear()[np.minimum(found.counts[known], MAX_COUNT)] * own.idf[slots]
    lengths = np.sqrt(np.bincount(texts, weights * weights, out.shape[1]))
    ends = np.searchsorted(texts, np.arange(out.shape[1] + 1))
    for i in np.flatnonzero(np.diff(ends)):
        rows = slice(ends[i], ends[i + 1])
        # Not `sum`, whose order of summation differs.
        total = np.add.accumulate(weights[rows, None] * own.components[slots[rows]], axis=0)[-1]
        out[:, i] += total / lengths[i]
