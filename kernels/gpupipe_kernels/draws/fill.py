"""Random bits for the rows of an array, wherever it lies: by `philox` on the host, by `cuda.loops` on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpupipe_kernels.draws.philox import on_host


def fill(out: Any, seed: int, stream: int, start: int) -> None:
    """Write the bits of rows `start` and on to an array of the host or of a device.

    Parameters
    ----------
    out : array of uint64, shape (rows,), contiguous
    seed, stream : int
        0 to 2**64 - 1. Streams of a seed have nothing to do with each other.
    start : int
        0 to 2**62.

    Raises
    ------
    ValueError
        If the elements of a device's array are not contiguous.
    """
    if isinstance(out, np.ndarray):
        out[:] = on_host(len(out), seed, stream, start)
    else:
        from gpupipe_kernels.draws.cuda.loops import fill_on_device

        fill_on_device(out, seed, stream, start)
