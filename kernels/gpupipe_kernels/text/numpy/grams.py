"""Hashed n-grams in NumPy: the readable reference, also used for small inputs because it needs no compiler.

The hash of an n-gram determines its bucket and its sign.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.text.characters import blocks
from gpupipe_kernels.text.numpy.items import Analyzer, Items, items_of
from gpupipe_kernels.text.numpy.murmur3 import murmur3
from gpupipe_kernels.typing import HostArray

BLOCK_VALUES = 1 << 20


class GramValue(IntEnum):
    """The value of a bucket, computed from the n-grams hashed to it."""

    COUNT = 0  # the number of n-grams, or the sum of their signs
    BINARY = 1  # 1 if there is any
    LOG = 2  # log(1 + |count|) with the sign of the count


class Grams(NamedTuple):
    """Settings of the conversion of texts to vectors.

    Attributes
    ----------
    analyzer : int
        An `Analyzer`.
    n_min, n_max : int
        Number of items of the shortest and the longest n-gram; 1 <= n_min <= n_max.
    n_buckets : int
        At least 1, less than 2**31.
    signed : int
        1 if half of the n-grams, chosen by a bit of their hash, count -1, so that collisions cancel out on average.
    value : int
        A `GramValue`; BINARY has no signs.
    l2 : int
        1 to scale each vector to unit length.
    """

    analyzer: int = Analyzer.WORD
    n_min: int = 1
    n_max: int = 1
    n_buckets: int = 64
    signed: int = 1
    value: int = GramValue.COUNT
    l2: int = 1

    @property
    def scalars(self) -> tuple[int, ...]:
        """The settings as arguments of compiled loops, which read `n_buckets` from the shape of the result."""
        return self.analyzer, self.n_min, self.n_max, self.signed, self.value, self.l2


def hash_grams(data: HostArray, offsets: HostArray, *grams: int) -> npt.NDArray[np.float32]:
    """Return the n-gram vectors of texts.

    Parameters
    ----------
    data : ndarray of uint8, shape (bytes,)
        UTF-8.
    offsets : ndarray of int64, shape (texts + 1,)
        Text i is ``data[offsets[i]:offsets[i + 1]]``, as in Arrow.
    *grams : int
        The fields of `Grams`.

    Returns
    -------
    ndarray of float32, shape (n_buckets, texts)
    """
    settings = Grams(*grams)
    out = np.zeros((settings.n_buckets, len(offsets) - 1), np.float32)
    for block in blocks(offsets, max(1, BLOCK_VALUES // settings.n_buckets)):
        _hash_block(data, offsets[block.start : block.stop + 1], settings, out[:, block])
    return out


def _hash_block(data: HostArray, offsets: HostArray, grams: Grams, out: HostArray) -> None:
    first = int(offsets[0])
    items = items_of(data[first : int(offsets[-1])], offsets - first, grams.analyzer)
    starts, stops, texts = slices_of(items, grams.analyzer, grams.n_min, grams.n_max)
    hashes = murmur3(items.stream, starts, stops).view(np.int32)
    cells = np.abs(hashes.astype(np.int64)) % grams.n_buckets * out.shape[1] + texts
    signs = np.where(hashes < 0, -1.0, 1.0) if grams.signed else np.ones(len(hashes))
    counts = np.bincount(cells, None if grams.value == GramValue.BINARY else signs, out.size)
    out[:] = weigh_counts(counts.reshape(out.shape), grams)


def weigh_counts(counts: HostArray, grams: Grams) -> HostArray:
    """Return the vectors of counted n-grams, float64, shape (n_buckets, texts)."""
    values = np.asarray(counts, np.float64)
    if grams.value == GramValue.BINARY:
        values = np.minimum(values, 1.0)
    if grams.value == GramValue.LOG:
        values = np.copysign(np.log1p(np.abs(values)), values)
    if grams.l2:
        # Bucket by bucket, because the summation order of `sum` depends on the number of texts.
        lengths = np.sqrt(np.add.accumulate(np.square(values), axis=0)[-1])
        values = values / np.where(lengths == 0, 1.0, lengths)
    return values


def slices_of(items: Items, analyzer: int, n_min: int, n_max: int) -> tuple[HostArray, HostArray, HostArray]:
    """Return the start and stop of each n-gram in the stream, and its text."""
    n_items = len(items.runs)
    firsts, lasts = [], []
    for n in range(n_min, n_max + 1):
        first = np.arange(n_items - n + 1)
        first = first[items.runs[first] == items.runs[first + n - 1]]
        firsts.append(first)
        lasts.append(first + n - 1)
    if analyzer == Analyzer.CHAR_WB:  # a run too short for the shortest n-gram counts as a whole
        sizes = np.bincount(items.runs, minlength=len(items.texts))
        last = np.cumsum(sizes) - 1
        short = np.flatnonzero((sizes > 0) & (sizes < n_min))
        firsts.append(last[short] - sizes[short] + 1)
        lasts.append(last[short])
    first, last = np.concatenate(firsts), np.concatenate(lasts)
    return items.starts[first], items.stops[last], items.texts[items.runs[first]]
