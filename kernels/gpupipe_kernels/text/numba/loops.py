"""Host loops over texts; each call processes a block of texts."""

from __future__ import annotations

import math

import numpy as np

from gpupipe_kernels.launch import host_block, host_walk
from gpupipe_kernels.text.numpy.grams import GramValue
from gpupipe_kernels.text.walks import count_text, hash_text, kind_at

COUNT = int(GramValue.COUNT)


@host_block
def text_kinds_block(data, classes, out, start, stop):
    """Write the class bits of the bytes ``start:stop``; see `walks.kind_at`."""
    for p in range(start, stop):
        out[p] = kind_at(data, classes, p)


@host_block
def text_hash_block(data, offsets, kinds, analyzer, n_min, n_max, signed, value, l2, out, start, stop):
    """Write the vectors of the texts ``start:stop``; see `walks.hash_text`."""
    for i in range(start, stop):
        hash_text(data, kinds, offsets[i], offsets[i + 1], analyzer, n_min, n_max, signed, value, l2, out, i)


@host_block
def text_counts_block(data, offsets, kinds, out, start, stop):
    """Write the counts of the texts ``start:stop``; see `walks.count_text`."""
    for i in range(start, stop):
        count_text(data, kinds, offsets[i], offsets[i + 1], out, i)


@host_walk
def text_projection_block(
    data, offsets, kinds, analyzer, n_min, n_max, slots, idf, components, levels, counts, total, out, start, stop
):
    """Add the projections of the texts ``start:stop`` to `out`; see `gpupipe_kernels.text.numpy.projection`.

    `levels` has the weight of each count. `counts`, float32 of shape (n_buckets, 1), and `total`, float64 of shape
    (k,), are working memory.
    """
    for i in range(start, stop):
        hash_text(data, kinds, offsets[i], offsets[i + 1], analyzer, n_min, n_max, 0, COUNT, 0, counts, 0)
        squares = 0.0
        for j in range(total.size):
            total[j] = 0.0
        for b in range(slots.size):
            if counts[b, 0] > 0 and slots[b] >= 0:
                s = slots[b]
                weight = levels[min(np.int64(counts[b, 0]), levels.size - 1)] * np.float64(idf[s])
                squares += weight * weight
                for j in range(total.size):
                    total[j] += weight * np.float64(components[s, j])
        length = math.sqrt(squares) if squares > 0 else 1.0
        for j in range(total.size):
            out[j, i] += total[j] / length
