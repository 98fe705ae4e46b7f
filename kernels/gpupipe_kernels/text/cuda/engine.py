"""Text kernels for the device, with the signatures of their NumPy references.

`allocate` can return CuPy arrays, whose memory pool may hold the device's memory and tracks its use.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import cuda

from gpupipe_kernels.launch import as_numba
from gpupipe_kernels.text.characters import classes
from gpupipe_kernels.text.cuda import loops
from gpupipe_kernels.text.numpy.counts import TextCount
from gpupipe_kernels.text.numpy.grams import Grams
from gpupipe_kernels.typing import Allocate, Array


def kinds_on_device(data: Array, allocate: Allocate | None = None) -> Array:
    """Return the result of `characters.byte_kinds` for device arrays, as a device array."""
    out = (allocate or cuda.device_array)(data.shape, "uint8")
    loops.device_kinds.launch(data.size, as_numba(data), _device_classes(), as_numba(out))
    return out


def hash_on_device(data: Array, offsets: Array, *grams: int, allocate: Allocate | None = None) -> Array:
    """Return the result of `grams.hash_grams` for device arrays, as a device array."""
    settings = Grams(*map(int, grams))
    out = (allocate or cuda.device_array)((settings.n_buckets, offsets.size - 1), "float32")
    kinds = as_numba(kinds_on_device(data, allocate))
    loops.device_hash.launch(
        out.shape[1], as_numba(data), as_numba(offsets), kinds, *settings.scalars, as_numba(out)
    )  # fmt: skip
    return out


def count_on_device(data: Array, offsets: Array, allocate: Allocate | None = None) -> Array:
    """Return the result of `counts.count_characters` for device arrays, as a device array."""
    out = (allocate or cuda.device_array)((len(TextCount), offsets.size - 1), "float32")
    kinds = as_numba(kinds_on_device(data, allocate))
    loops.device_count.launch(out.shape[1], as_numba(data), as_numba(offsets), kinds, as_numba(out))
    return out


@cache
def _device_classes() -> Any:
    return cuda.to_device(classes())
