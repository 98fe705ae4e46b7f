"""Declaration of the random bit kernel; its reference uses Python's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpupipe_kernels.contract import Argument, KernelDeclaration
from gpupipe_kernels.device import arrays
from gpupipe_kernels.draws import WORDS
from gpupipe_kernels.draws.cuda.loops import (
    MULTIPLIER_0,
    MULTIPLIER_1,
    ROUNDS,
    STEP_0,
    STEP_1,
    draw_words,
    fill_on_device,
)
from gpupipe_kernels.draws.philox import on_host


def words_of(counter: int, key: tuple[int, int]) -> list[int]:
    """Return the four words of a counter, as defined in the paper."""
    (a, b, c, d), (k, m) = (counter, 0, 0, 0), key
    for _ in range(ROUNDS):
        first, second = a * MULTIPLIER_0, c * MULTIPLIER_1
        a = (second >> 64) ^ b ^ k
        b = second % 2**64
        c = (first >> 64) ^ d ^ m
        d = first % 2**64
        k, m = (k + STEP_0) % 2**64, (m + STEP_1) % 2**64
    return [a, b, c, d]


def _in_python(n_rows: int, seed: int, stream: int, start: int) -> npt.NDArray[np.uint64]:
    rows = range(start, start + n_rows)
    return np.array([words_of(row // WORDS + 1, (seed, stream))[row % WORDS] for row in rows], np.uint64)


def _on_device(n_rows: int, seed: int, stream: int, start: int) -> Any:
    out = arrays.empty(n_rows, np.uint64)
    fill_on_device(out, seed, stream, start)
    return out


def _sample(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return n, 2**64 - 1 - int(rng.integers(9)), int(rng.integers(2**63)), int(rng.integers(2**40))


KERNELS = (
    KernelDeclaration(
        "draw_words", "64 random bits per row: Philox4x64-10 of seed, stream and position",
        (Argument("n_rows", "int64", ()), Argument("seed", "uint64", ()), Argument("stream", "uint64", ()),
         Argument("start", "uint64", ())),
        (Argument("bits", "uint64"),), "none", 0.0, 0.0,
        _in_python, on_host, _on_device, _sample, (draw_words,),
    ),
)  # fmt: skip
