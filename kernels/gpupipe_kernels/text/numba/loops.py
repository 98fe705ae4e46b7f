"""Host loops over texts; each call processes a block of texts."""

from __future__ import annotations

from typing import Any

from gpupipe_kernels.launch import host_block
from gpupipe_kernels.text.walks import count_text, hash_text, kind_at


@host_block
def text_kinds_block(data: Any, classes: Any, out: Any, start: int, stop: int) -> None:
    """Write the class bits of the bytes ``start:stop``; see `walks.kind_at`."""
    for p in range(start, stop):
        out[p] = kind_at(data, classes, p)


@host_block
def text_hash_block(
    data: Any, offsets: Any, kinds: Any, analyzer: int, n_min: int, n_max: int, signed: int, value: int, l2: int,
    out: Any, start: int, stop: int,
) -> None:  # fmt: skip
    """Write the vectors of the texts ``start:stop``; see `walks.hash_text`."""
    for i in range(start, stop):
        hash_text(data, kinds, offsets[i], offsets[i + 1], analyzer, n_min, n_max, signed, value, l2, out, i)


@host_block
def text_counts_block(data: Any, offsets: Any, kinds: Any, out: Any, start: int, stop: int) -> None:
    """Write the counts of the texts ``start:stop``; see `walks.count_text`."""
    for i in range(start, stop):
        count_text(data, kinds, offsets[i], offsets[i + 1], out, i)
