"""Text kernels on host threads, with the signatures of their NumPy references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.launch import read_only
from gpupipe_kernels.text.characters import classes
from gpupipe_kernels.text.numba import loops
from gpupipe_kernels.text.numpy.counts import TextCount
from gpupipe_kernels.text.numpy.grams import Grams, GramValue, weigh_counts
from gpupipe_kernels.text.numpy.projection import GramProjection, sublinear
from gpupipe_kernels.threads import run_blocks
from gpupipe_kernels.typing import HostArray

BLOCK_TEXTS = 1_024
BLOCK_BYTES = 65_536


def kinds_on_host(data: HostArray, n_threads: int = 1) -> npt.NDArray[np.uint8]:
    """Return the result of `characters.byte_kinds`."""
    data, out = read_only(data), np.empty(len(data), np.uint8)
    _run(loops.text_kinds_block, len(data), BLOCK_BYTES, n_threads, data, classes(), out)
    return out


def hash_on_host(data: HostArray, offsets: HostArray, *grams: int, n_threads: int = 1) -> npt.NDArray[np.float32]:
    """Return the result of `grams.hash_grams`."""
    settings = Grams(*map(int, grams))
    data, offsets = _used(data, offsets)
    out = np.empty((settings.n_buckets, len(offsets) - 1), np.float32)
    kinds = read_only(kinds_on_host(data, n_threads))
    # The loops only count; NumPy weights the counts, so that both engines give the same bits.
    counted = settings._replace(value=GramValue.COUNT if settings.value == GramValue.LOG else settings.value, l2=0)
    arguments = data, offsets, kinds, *counted.scalars, out
    _compile(loops.text_hash_block, *arguments)

    def hash_block(start: int, stop: int) -> None:
        loops.text_hash_block(*arguments, start, stop)
        if counted != settings:
            out[:, start:stop] = weigh_counts(out[:, start:stop], settings)

    run_blocks(hash_block, out.shape[1], BLOCK_TEXTS, n_threads)
    return out


def project_on_host(
    data: HostArray, offsets: HostArray, projections: Sequence[GramProjection], n_threads: int = 1
) -> npt.NDArray[np.float64]:
    """Return the result of `projection.project_grams`."""
    data, offsets = _used(data, offsets)
    out = np.zeros((projections[0].components.shape[1], len(offsets) - 1))
    kinds, levels = read_only(kinds_on_host(data, n_threads)), sublinear()
    for own in projections:
        arrays = [_as_constant(array) for array in (own.slots, own.idf, own.components, levels)]
        arguments = data, offsets, kinds, own.analyzer, own.n_min, own.n_max, *arrays

        def project_block(start: int, stop: int) -> None:
            memory = np.empty((len(own.slots), 1), np.float32), np.empty(len(out))  # noqa: B023
            loops.text_projection_block(*arguments, *memory, out, start, stop)  # noqa: B023

        if not loops.text_projection_block.overloads:
            project_block(0, 0)  # on one thread
        run_blocks(project_block, out.shape[1], BLOCK_TEXTS, n_threads)
    return out


def warm_projection() -> None:
    """Compile the loop of `project_on_host`, or load it from disk."""
    components = np.zeros((1, 1), np.float32)
    projection = GramProjection(0, 1, 1, np.zeros(1, np.int32), components[0], components)
    project_on_host(np.zeros(0, np.uint8), np.zeros(1, np.int64), [projection])


def count_on_host(data: HostArray, offsets: HostArray, n_threads: int = 1) -> npt.NDArray[np.float32]:
    """Return the result of `counts.count_characters`."""
    data, offsets = _used(data, offsets)
    out = np.empty((len(TextCount), len(offsets) - 1), np.float32)
    kinds = read_only(kinds_on_host(data, n_threads))
    _run(loops.text_counts_block, out.shape[1], BLOCK_TEXTS, n_threads, data, offsets, kinds, out)
    return out


def _compile(loop: Any, *arguments: Any) -> None:
    """Compile a loop, or load it from disk, on one thread before several call it."""
    if not loop.overloads:
        loop(*arguments, 0, 0)


def _run(loop: Any, n: int, block: int, n_threads: int, *arguments: Any) -> None:
    _compile(loop, *arguments)
    run_blocks(lambda start, stop: loop(*arguments, start, stop), n, block, n_threads)


def _as_constant(array: HostArray) -> HostArray:
    """Return a read-only contiguous array: the array itself if it is one."""
    return array if array.flags.c_contiguous and not array.flags.writeable else read_only(array)


def _used(data: HostArray, offsets: HostArray) -> tuple[HostArray, HostArray]:
    """Return the bytes of the texts, and offsets into them."""
    first, last = int(offsets[0]), int(offsets[-1])
    return read_only(data[first:last]), read_only(offsets - first)
