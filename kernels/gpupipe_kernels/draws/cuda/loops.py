"""Philox4x64-10 as a CUDA kernel: each thread computes the four words of one counter, in exact integer arithmetic."""

from __future__ import annotations

import numpy as np
from numba import uint64

from gpupipe_kernels.device.language import cuda
from gpupipe_kernels.draws import WORDS
from gpupipe_kernels.launch import DeviceLoop, formula
from gpupipe_kernels.typing import Array

ROUNDS = 10
LOW = 0xFFFFFFFF
# From the paper: two odd multipliers; the golden ratio and the square root of 3 advance the key.
MULTIPLIER_0, MULTIPLIER_1 = 0xD2E7470EE14C6C93, 0xCA5A826395121157
STEP_0, STEP_1 = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B


@formula
def high_product(a, b):
    """Return the upper 64 bits of a product of two uint64, computed from halves so that no sum overflows."""
    a_low, a_high = a & uint64(LOW), a >> uint64(32)
    b_low, b_high = b & uint64(LOW), b >> uint64(32)
    one, other = a_low * b_high, a_high * b_low
    carried = (a_low * b_low >> uint64(32)) + (one & uint64(LOW)) + (other & uint64(LOW))
    return a_high * b_high + (one >> uint64(32)) + (other >> uint64(32)) + (carried >> uint64(32))


def _draw_words(seed, stream, counter, skipped, out):
    """Write the words from `counter` on, skipping the first few."""
    for i in range(cuda.grid(1), (skipped + out.size + WORDS - 1) // WORDS, cuda.gridsize(1)):
        w0, w1, w2, w3 = counter + uint64(i), uint64(0), uint64(0), uint64(0)
        k0, k1 = seed, stream
        for _ in range(ROUNDS):
            a, b = w0 * uint64(MULTIPLIER_0), w2 * uint64(MULTIPLIER_1)
            a_high, b_high = high_product(w0, uint64(MULTIPLIER_0)), high_product(w2, uint64(MULTIPLIER_1))
            w0, w1, w2, w3 = b_high ^ w1 ^ k0, b, a_high ^ w3 ^ k1, a
            k0, k1 = k0 + uint64(STEP_0), k1 + uint64(STEP_1)
        at = WORDS * i - skipped
        if 0 <= at < out.size:
            out[at] = w0
        if 0 <= at + 1 < out.size:
            out[at + 1] = w1
        if 0 <= at + 2 < out.size:
            out[at + 2] = w2
        if 0 <= at + 3 < out.size:
            out[at + 3] = w3


draw_words = DeviceLoop(_draw_words, "uint64", "uint64", "uint64", "int64", "uint64[::1]")


def fill_on_device(out: Array, seed: int, stream: int, start: int) -> None:
    """See `gpupipe_kernels.draws.philox.fill`."""
    counter, skipped = divmod(start, WORDS)
    n_counters = -(-(skipped + out.size) // WORDS) if out.size else 0
    draw_words.launch(n_counters, np.uint64(seed), np.uint64(stream), np.uint64(counter + 1), skipped, out)
