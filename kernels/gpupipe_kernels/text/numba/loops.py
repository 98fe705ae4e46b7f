"""Host loops over texts; each call processes a block of texts."""

from __future__ import annotations

from gpupipe_kernels.launch import host_block
from gpupipe_kernels.text.walks import count_text, hash_text, kind_at


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
