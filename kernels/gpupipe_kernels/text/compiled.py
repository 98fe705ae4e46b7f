"""The kernels on texts as they are called, with the arguments of their references, and their declarations."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from gpupipe_kernels.code_cache import mark_kept
from gpupipe_kernels.contract import Argument, Kernel
from gpupipe_kernels.text import loops
from gpupipe_kernels.text.characters import byte_kinds, classes
from gpupipe_kernels.text.counts import Count, count_characters
from gpupipe_kernels.text.grams import Grams, Value, hash_grams
from gpupipe_kernels.text.items import Analyzer
from gpupipe_kernels.threads import run_blocks

BLOCK_TEXTS = 1_024
BLOCK_BYTES = 65_536

Array = npt.NDArray[Any]


def is_loaded(loop: str) -> bool:
    """Return whether a loop of the host has been compiled, or read from disk, in this process."""
    return bool(getattr(loops, loop).signatures)


def kinds_on_host(data: Array, n_threads: int = 1) -> npt.NDArray[np.uint8]:
    """Return what `characters.byte_kinds` does."""
    data, out = _read_only(data), np.empty(len(data), np.uint8)
    _run(loops.text_kinds_block, len(data), BLOCK_BYTES, n_threads, data, classes(), out)
    return out


def hash_on_host(data: Array, offsets: Array, *grams: int, n_threads: int = 1) -> npt.NDArray[np.float32]:
    """Return what `grams.hash_grams` does."""
    settings = Grams(*map(int, grams))
    data, offsets = _used(data, offsets)
    out = np.empty((settings.n_buckets, len(offsets) - 1), np.float32)
    kinds = _read_only(kinds_on_host(data, n_threads))
    _run(loops.text_hash_block, out.shape[1], BLOCK_TEXTS, n_threads, data, offsets, kinds, *_scalars(settings), out)
    return out


def count_on_host(data: Array, offsets: Array, n_threads: int = 1) -> npt.NDArray[np.float32]:
    """Return what `counts.count_characters` does."""
    data, offsets = _used(data, offsets)
    out = np.empty((len(Count), len(offsets) - 1), np.float32)
    kinds = _read_only(kinds_on_host(data, n_threads))
    _run(loops.text_counts_block, out.shape[1], BLOCK_TEXTS, n_threads, data, offsets, kinds, out)
    return out


def kinds_on_device(data: Any) -> Any:
    """Return what `characters.byte_kinds` does, of and as device arrays."""
    _require_contiguous(data)
    out = cuda.device_array(data.shape, np.uint8)
    loops.device_kinds.launch(data.size, data, _device_classes(), out)
    return out


def hash_on_device(data: Any, offsets: Any, *grams: int) -> Any:
    """Return what `grams.hash_grams` does, of and as device arrays."""
    _require_contiguous(offsets)
    settings = Grams(*map(int, grams))
    out = cuda.device_array((settings.n_buckets, offsets.size - 1), np.float32)
    loops.device_hash.launch(out.shape[1], data, offsets, kinds_on_device(data), *_scalars(settings), out)
    return out


def count_on_device(data: Any, offsets: Any) -> Any:
    """Return what `counts.count_characters` does, of and as device arrays."""
    _require_contiguous(offsets)
    out = cuda.device_array((len(Count), offsets.size - 1), np.float32)
    loops.device_count.launch(out.shape[1], data, offsets, kinds_on_device(data), out)
    return out


@cache
def _device_classes() -> Any:
    return cuda.to_device(classes())


def _scalars(grams: Grams) -> tuple[int, ...]:
    """Return the settings that the loops take; they see the number of buckets in the result."""
    return grams.analyzer, grams.n_min, grams.n_max, grams.signed, grams.value, grams.l2


def _run(loop: Any, n: int, block: int, n_threads: int, *arguments: Any) -> None:
    if not loop.signatures:
        loop(*arguments, 0, 0)  # compiled once, by one thread
        mark_kept(loop.__name__)
    run_blocks(lambda start, stop: loop(*arguments, start, stop), n, block, n_threads)


def _used(data: Array, offsets: Array) -> tuple[Array, Array]:
    """Return the bytes that the texts have, and offsets into them."""
    first, last = int(offsets[0]), int(offsets[-1])
    return _read_only(data[first:last]), _read_only(offsets - first)


def _read_only(array: Array) -> Array:
    """Return an array of the one type that the loops are compiled for: Arrow's buffers cannot be written."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _require_contiguous(array: Any) -> None:
    if array.size > 1 and array.strides != (array.dtype.itemsize,):
        raise ValueError("bytes and offsets of texts on the device must lie one behind the other")


def _sample_bytes(rng: np.random.Generator, n: int) -> tuple[Array]:
    return (_sample_texts(rng, n)[0],)


def _sample_texts(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Return n texts of 0 to 12 characters, of one to four bytes each."""
    alphabet = np.array(list("aB7_ .!\n\t\0é½ßİ—漢　😀"))
    texts = ["".join(rng.choice(alphabet, size)).encode() for size in rng.integers(0, 13, n)]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return np.frombuffer(bytearray(b"".join(texts)), np.uint8), offsets


def _sample_grams(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    n_min = int(rng.integers(1, 4))
    n_max = n_min + int(rng.integers(0, 3))
    flags = (int(rng.integers(2)), int(rng.integers(len(Value))), int(rng.integers(2)))
    return *_sample_texts(rng, n), int(rng.integers(len(Analyzer))), n_min, n_max, int(rng.integers(1, 9)), *flags


DATA = Argument("data", "uint8", ("bytes",))
TEXTS = (DATA, Argument("offsets", "int64", ("texts + 1",)))
KERNELS = (
    Kernel(
        "text_kinds", "the classes of the character that each byte of a text belongs to",
        (DATA,), (Argument("kinds", "uint8", ("bytes",)),),
        "none: a byte that is not UTF-8 has no class",
        0.0, 0.0, byte_kinds, kinds_on_host, kinds_on_device, _sample_bytes, (loops.device_kinds,),
    ),
    Kernel(
        "text_hash", "hashed n-grams of words or characters, MurmurHash3",
        (*TEXTS, *(Argument(name, "int64", ()) for name in Grams._fields)),
        (Argument("vectors", "float32", ("n_buckets", "texts")),),
        "none: who calls it gives null the zeros of an empty text",
        1e-6, 0.0, hash_grams, hash_on_host, hash_on_device, _sample_grams, (loops.device_kinds, loops.device_hash),
    ),
    Kernel(
        "text_counts", "characters, words, digits and other counts of texts",
        TEXTS, (Argument("counts", "float32", (str(len(Count)), "texts")),),
        "none: who calls it sets the counts of null to NaN",
        0.0, 0.0, count_characters, count_on_host, count_on_device, _sample_texts,
        (loops.device_kinds, loops.device_count),
    ),
)  # fmt: skip
