"""Declarations of the text kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpupipe_kernels.contract import Argument, KernelDeclaration
from gpupipe_kernels.text.characters import byte_kinds
from gpupipe_kernels.text.cuda import loops
from gpupipe_kernels.text.cuda.engine import count_on_device, hash_on_device, kinds_on_device
from gpupipe_kernels.text.numba.engine import count_on_host, hash_on_host, kinds_on_host
from gpupipe_kernels.text.numpy.counts import TextCount, count_characters
from gpupipe_kernels.text.numpy.grams import Grams, GramValue, hash_grams
from gpupipe_kernels.text.numpy.items import Analyzer
from gpupipe_kernels.typing import HostArray


def _sample_bytes(rng: np.random.Generator, n: int) -> tuple[HostArray]:
    return (_sample_texts(rng, n)[0],)


def _sample_texts(rng: np.random.Generator, n: int) -> tuple[HostArray, HostArray]:
    """Return n texts of 0 to 12 characters of one to four bytes each."""
    alphabet = np.array(list("aB7_ .!\n\t\0é½ßİ—漢　😀"))
    texts = ["".join(rng.choice(alphabet, size)).encode() for size in rng.integers(0, 13, n)]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(bytearray(b"".join(texts)), np.uint8), offsets


def _sample_grams(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    n_min = int(rng.integers(1, 4))
    n_max = n_min + int(rng.integers(0, 3))
    flags = (int(rng.integers(2)), int(rng.integers(len(GramValue))), int(rng.integers(2)))
    return *_sample_texts(rng, n), int(rng.integers(len(Analyzer))), n_min, n_max, int(rng.integers(1, 9)), *flags


DATA = Argument("data", "uint8", ("bytes",))
TEXTS = (DATA, Argument("offsets", "int64", ("texts + 1",)))
KERNELS = (
    KernelDeclaration(
        "text_kinds", "character class of each byte of a text",
        (DATA,), (Argument("kinds", "uint8", ("bytes",)),),
        "none: a byte that is not valid UTF-8 has no class",
        0.0, 0.0, byte_kinds, kinds_on_host, kinds_on_device, _sample_bytes, (loops.device_kinds,),
    ),
    KernelDeclaration(
        "text_hash", "hashed n-grams of words or characters, MurmurHash3",
        (*TEXTS, *(Argument(name, "int64", ()) for name in Grams._fields)),
        (Argument("vectors", "float32", ("n_buckets", "texts")),),
        "none: callers treat null as an empty text, a vector of zeros",
        2e-7, 0.0, hash_grams, hash_on_host, hash_on_device, _sample_grams, (loops.device_kinds, loops.device_hash),
    ),
    KernelDeclaration(
        "text_counts", "counts of characters, words, digits and more per text",
        TEXTS, (Argument("counts", "float32", (str(len(TextCount)), "texts")),),
        "none: callers set the counts of null to NaN",
        0.0, 0.0, count_characters, count_on_host, count_on_device, _sample_texts,
        (loops.device_kinds, loops.device_count),
    ),
)  # fmt: skip
