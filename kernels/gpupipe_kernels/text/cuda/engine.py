"""Kernels on texts for the device, with the arguments of their NumPy references."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import cuda

from gpupipe_kernels.text.characters import classes
from gpupipe_kernels.text.cuda import loops
from gpupipe_kernels.text.numpy.counts import TextCount
from gpupipe_kernels.text.numpy.grams import Grams


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
    loops.device_hash.launch(out.shape[1], data, offsets, kinds_on_device(data), *settings.scalars, out)
    return out


def count_on_device(data: Any, offsets: Any) -> Any:
    """Return what `counts.count_characters` does, of and as device arrays."""
    _require_contiguous(offsets)
    out = cuda.device_array((len(TextCount), offsets.size - 1), np.float32)
    loops.device_count.launch(out.shape[1], data, offsets, kinds_on_device(data), out)
    return out


@cache
def _device_classes() -> Any:
    return cuda.to_device(classes())


def _require_contiguous(array: Any) -> None:
    if array.size > 1 and array.strides != (array.dtype.itemsize,):
        raise ValueError("bytes and offsets of texts on the device must lie one behind the other")
