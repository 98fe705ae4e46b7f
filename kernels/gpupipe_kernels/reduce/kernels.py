"""Declarations of the reductions, with references in plain NumPy and Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpupipe_kernels.contract import Argument, KernelDeclaration
from gpupipe_kernels.device import arrays
from gpupipe_kernels.reduce.cuda import engine as cuda_engine
from gpupipe_kernels.reduce.cuda import loops
from gpupipe_kernels.reduce.engine import FLOAT32_MAX, LANES, LARGEST, CellLayout
from gpupipe_kernels.reduce.numba import engine as numba_engine
from gpupipe_kernels.typing import HostArray

PIVOT = 3.5
SIZES = (7, 300, 5_000)  # table sizes; the last is too large for shared memory


def _sums_of_numpy(x: HostArray, pivot: float) -> HostArray:
    away = x.astype(np.float64) - pivot
    near = away[np.abs(away) <= FLOAT32_MAX]
    return np.array([len(near), np.isnan(x).sum(), near.sum(), np.square(near).sum()])


def _sums_cpu(x: HostArray, pivot: float) -> HostArray:
    sums, none = np.zeros((2, LANES)), np.empty((0, 2), x.dtype)
    counts = numba_engine.sweep(x, pivot, sums, none, none, np.zeros((0, 2), np.int64))
    return np.array([*counts, *sums.sum(axis=1)])


def _sums_gpu(x: Any, pivot: float) -> Any:
    out = arrays.upload(np.zeros(4))
    cuda_engine.add_up(x, pivot, arrays.empty(cuda_engine.ROOM, np.float64), out)
    return out


def _sums_sample(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return np.where(rng.random(n) < 0.1, np.nan, rng.normal(5.0, 300.0, n)), PIVOT


def _counts_of_numpy(codes: HostArray, size: int) -> HostArray:
    return np.bincount(codes, minlength=size)


def _counts_cpu(codes: HostArray, size: int) -> HostArray:
    counts = np.zeros(size, np.int64)
    numba_engine.count(codes, counts)
    return counts


def _counts_gpu(codes: Any, size: int) -> Any:
    counts = arrays.upload(np.zeros(size, np.int64))
    cuda_engine.count(codes, counts)
    return counts


def _counts_sample(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    size = SIZES[n % len(SIZES)]
    return (rng.beta(1, 3, n) * size).astype(np.int32), size


def _bins_in_python(x: HostArray, edges: HostArray, n_counts: int) -> HostArray:
    counts = np.zeros(n_counts, np.int64)
    for value in x.tolist():
        counts[1 + sum(edge <= value for edge in edges.tolist()) if abs(value) <= LARGEST else 0] += 1
    return counts


def _bins_cpu(x: HostArray, edges: HostArray, n_counts: int) -> HostArray:
    counts = np.zeros(n_counts, np.int64)
    numba_engine.bin(x, edges, counts)
    return counts


def _bins_gpu(x: Any, edges: Any, n_counts: int) -> Any:
    counts = arrays.upload(np.zeros(n_counts, np.int64))
    cuda_engine.bin(x, edges, counts)
    return counts


def _bins_sample(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    edges = np.unique(rng.lognormal(0.0, 2.0, n % 65).astype(np.float32))
    x = np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(0.0, 3.0, n)).astype(np.float32)
    if len(edges):
        x[rng.random(n) < 0.1] = edges[-1]
    x[rng.random(n) < 0.05] = np.inf
    return x, edges, len(edges) + 2


def _totals_of_numpy(cell: HostArray, y: HostArray, largest: float, size: int) -> HostArray:
    return np.bincount(cell, y, minlength=size).astype(np.float64)  # without rows they would be integers


def _totals_cpu(cell: HostArray, y: HostArray, largest: float, size: int) -> HostArray:
    counts, totals = np.zeros(size, np.int64), np.zeros(size)
    cells = CellLayout({"made_int32": cell[None]}, (("made_int32", 0, 0),), size, y)
    numba_engine.tally(cells, 0, len(cell), counts, totals)
    return totals


def _totals_gpu(cell: Any, y: Any, largest: float, size: int) -> Any:
    coarse = _limbs(size)
    fine = _limbs(size)
    scales = cuda_engine.scales_of(len(y), largest)
    cuda_engine.add_whole(cell, y, scales, coarse, fine)
    return arrays.upload(cuda_engine.joined(arrays.download(coarse), arrays.download(fine), scales))


def _limbs(size: int) -> Any:
    return arrays.upload(np.zeros(size, np.int64))


def _totals_sample(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    cell, size = _counts_sample(rng, n)
    y = rng.normal(0.0, 1.0, n) * rng.lognormal(0.0, 3.0, n)
    return cell, y, float(np.abs(y).max(initial=0.0)), size


def _folds_in_python(start: int, seed: int, n_folds: int, n_rows: int) -> HostArray:
    bits = seed * 0x9E3779B1 % 2**32
    hashes = (_mixed((_mixed(start + i) + bits) % 2**32) for i in range(n_rows))
    return np.array([h * n_folds // 2**32 + 1 for h in hashes], np.int8)


def _mixed(h: int) -> int:
    """Return murmur3's finaliser, in Python integers."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor % 2**32
    return h ^ h >> 16


def _folds_cpu(start: int, seed: int, n_folds: int, n_rows: int) -> HostArray:
    out = np.empty(n_rows, np.int8)
    numba_engine.fold(start, seed, n_folds, out)
    return out


def _folds_gpu(start: int, seed: int, n_folds: int, n_rows: int) -> Any:
    out = arrays.empty(n_rows, np.int8)
    cuda_engine.fold(start, seed, n_folds, out)
    return out


def _folds_sample(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return 65_000, int(rng.integers(0, 1000)), 5, n


def _scalars(*names: str) -> tuple[Argument, ...]:
    return tuple(Argument(name, "int64", ()) for name in names)


KERNELS = (
    KernelDeclaration(
        "reduce_sums", "number of values and nulls, and the sums of differences from a pivot and of their squares",
        (Argument("x", "float64", null=np.nan), Argument("pivot", "float64", ())),
        (Argument("sums", "float64", ("4",)),), "counted; values that exceed float32 are skipped", 1e-12, 1e-9,
        _sums_of_numpy, _sums_cpu, _sums_gpu, _sums_sample, (loops.add_up, loops.join),
    ),
    KernelDeclaration(
        "reduce_count", "number of rows per code", (Argument("codes", "int32"), *_scalars("size")),
        (Argument("counts", "int64", ("size",)),), "an ordinary code", 0.0, 0.0,
        _counts_of_numpy, _counts_cpu, _counts_gpu, _counts_sample, (loops.count,),
    ),
    KernelDeclaration(
        "reduce_bin", "number of nulls, and of values between consecutive edges",
        (Argument("x", "float32"), Argument("edges", "float32", ("edges",)), *_scalars("n_counts")),
        (Argument("counts", "int64", ("n_counts",)),), "counted first; values that exceed 2**125 are nulls", 0.0, 0.0,
        _bins_in_python, _bins_cpu, _bins_gpu, _bins_sample, (loops.bin_values,),
    ),
    KernelDeclaration(
        "reduce_total", "sum of a number over the rows of each cell",
        (Argument("cell", "int32"), Argument("y", "float64"), Argument("largest", "float64", ()), *_scalars("size")),
        (Argument("totals", "float64", ("size",)),), "none", 1e-12, 1e-9,
        _totals_of_numpy, _totals_cpu, _totals_gpu, _totals_sample, (loops.total,),
    ),
    KernelDeclaration(
        "reduce_fold", "fold of each row: a hash of seed and position",
        _scalars("start", "seed", "n_folds", "n_rows"), (Argument("fold", "int8"),), "none", 0.0, 0.0,
        _folds_in_python, _folds_cpu, _folds_gpu, _folds_sample, (loops.fold,),
    ),
)  # fmt: skip
