"""Texts as numbers: hashed n-grams, and counts of what is in them. No Python string is ever made.

Texts are what Arrow holds: UTF-8 bytes, and offsets that say where each text starts and ends. What a word is, how
n-grams are made of words or characters, and to which bucket an n-gram belongs is scikit-learn's `HashingVectorizer`
with the token pattern ``\\w+``, to the bit.

``characters``  the class of each byte's character
``numpy``       texts cut into words or characters (``items``), hashed n-grams (``grams``, ``murmur3``), ``counts``
``walks``       the same for one text, compiled for either processor, with its scalar ``formulas``
``numba``       loops over texts on the host; ``cuda``: on the device
``kernels``     the declarations
"""

from __future__ import annotations

import sys

from gpupipe_kernels.code_cache import is_kept
from gpupipe_kernels.text.numpy.counts import TextCount, count_characters
from gpupipe_kernels.text.numpy.grams import Grams, GramValue, hash_grams
from gpupipe_kernels.text.numpy.items import Analyzer
from gpupipe_kernels.typing import HostArray

__all__ = ["Analyzer", "GramValue", "Grams", "TextCount", "count_texts", "hash_texts"]

# Bytes of text from which on the compiled loops are the faster way, measured on two cores: NumPy takes about 37 ns a
# byte, the loops 11; Numba takes 0.9 s to read them from disk, and 4.6 s to compile them.
WORTH_RUNNING = 1 << 18
WORTH_LOADING = 1 << 25
WORTH_COMPILING = 1 << 27


def hash_texts(data: HostArray, offsets: HostArray, grams: Grams, n_threads: int = 1) -> HostArray:
    """Return the vectors of texts: see `grams.hash_grams`; by NumPy where compiled code does not pay."""
    if not _is_worth_it("text_hash_block", offsets):
        return hash_grams(data, offsets, *grams)
    from gpupipe_kernels.text.numba import engine

    return engine.hash_on_host(data, offsets, *grams, n_threads=n_threads)


def count_texts(data: HostArray, offsets: HostArray, n_threads: int = 1) -> HostArray:
    """Return the counts of texts: see `counts.count_characters`; by NumPy where compiled code does not pay."""
    if not _is_worth_it("text_counts_block", offsets):
        return count_characters(data, offsets)
    from gpupipe_kernels.text.numba import engine

    return engine.count_on_host(data, offsets, n_threads=n_threads)


def _is_worth_it(loop: str, offsets: HostArray) -> bool:
    """Return whether to run a compiled loop; asking does not load Numba."""
    n_bytes = int(offsets[-1] - offsets[0])
    engine = sys.modules.get("gpupipe_kernels.text.numba.engine")
    if engine is not None and engine.is_loaded(loop):
        return n_bytes >= WORTH_RUNNING
    return n_bytes >= (WORTH_LOADING if is_kept(loop) else WORTH_COMPILING)
