"""Ahead-of-time compilation of all kernels, for container images and for fast first runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpupipe_kernels.code_cache import cache_folder

FEW_ROWS = 500  # enough rows for a sample to need every loop


@dataclass(frozen=True)
class ReadyKernel:
    """A compiled kernel.

    Attributes
    ----------
    n_compiled : int
        Number of loops that were compiled; 0 if all were on disk.
    """

    name: str
    seconds: float
    n_compiled: int


def warm_all(with_device: bool = False) -> Iterator[ReadyKernel]:
    """Compile every kernel that is not on disk yet, and yield each when done.

    Parameters
    ----------
    with_device : bool
        Whether to compile for the available GPU too.
    """
    from gpupipe_kernels.catalog import kernels
    from gpupipe_kernels.proof.fuzz import on_device
    from gpupipe_kernels.reduce.numba import engine as numba_engine
    from gpupipe_kernels.rows import warm_up as rows
    from gpupipe_kernels.shapley import warm_up as shapley
    from gpupipe_kernels.text.numba.engine import warm_projection

    yield _timed("reduce", numba_engine.warm, ())
    yield _timed("single_rows", rows.warm, ())
    yield _timed("explanations", shapley.warm, ())
    yield _timed("text_projection", warm_projection, ())
    for kernel in kernels().values():
        inputs = kernel.sample(np.random.default_rng(0), FEW_ROWS)
        yield _timed(kernel.name, kernel.cpu, inputs)
        if with_device:
            yield _timed(f"{kernel.name} on the device", on_device(kernel), inputs)


def _timed(name: str, function: Callable[..., Any], inputs: tuple[Any, ...]) -> ReadyKernel:
    before, start = _n_kept(), time.perf_counter()
    function(*inputs)
    return ReadyKernel(name, time.perf_counter() - start, _n_kept() - before)


def _n_kept() -> int:
    """Return the number of compiled loops on disk."""
    return sum(path.suffix in (".nbc", ".ptx") for path in cache_folder().rglob("*"))
