"""Text kernels for the device, with the signatures of their NumPy references.

`allocate` can return CuPy arrays, whose memory pool may hold the device's memory and tracks its use.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from gpupipe_kernels.device import arrays
from gpupipe_kernels.text.characters import classes
from gpupipe_kernels.text.cuda import loops
from gpupipe_kernels.text.numpy.counts import TextCount
from gpupipe_kernels.text.numpy.grams import Grams
from gpupipe_kernels.typing import Allocate, Array


def kinds_on_device(data: Array, allocate: Allocate | None = None) -> Array:
    """Return the result of `characters.byte_kinds` for device arrays, as a device array."""
    out = (allocate or arrays.empty)(data.shape, "uint8")
    loops.device_kinds.launch(data.size, data, _device_classes(), out)
    return out


def hash_on_device(data: Array, offsets: Array, *grams: int, allocate: Allocate | None = None) -> Array:
    """Return the result of `grams.hash_grams` for device arrays, as a device array."""
    settings = Grams(*map(int, grams))
    out = (allocate or arrays.empty)((settings.n_buckets, offsets.size - 1), "float32")
    kinds = kinds_on_device(data, allocate)
    loops.device_hash.launch(out.shape[1], data, offsets, kinds, *settings.scalars, out)
    return out


def count_on_device(data: Array, offsets: Array, allocate: Allocate | None = None) -> Array:
    """Return the result of `counts.count_characters` for device arrays, as a device array."""
    out = (allocate or arrays.empty)((len(TextCount), offsets.size - 1), "float32")
    kinds = kinds_on_device(data, allocate)
    loops.device_count.launch(out.shape[1], data, offsets, kinds, out)
    return out


@cache
def _device_classes() -> Any:
    return arrays.upload(classes())
