"""CUDA kernels of `gpupipe_kernels.reduce.cuda.engine`. Results do not depend on the order of the threads.

Floats are summed in a fixed tree: by each thread over its stride, by each block in shared memory, and finally over the
blocks by one block. Integers are summed by atomic operations, first in shared memory if the table fits.
"""

from __future__ import annotations

import math

from numba import float64, int32, int64

from gpupipe_kernels.device.language import cuda
from gpupipe_kernels.device.parameters import F64, I8, I64
from gpupipe_kernels.launch import THREADS_A_BLOCK, DeviceLoop, array_formula, is_simulated
from gpupipe_kernels.reduce.engine import FLOAT32_MAX
from gpupipe_kernels.reduce.formulas import fold_of

# Simulator threads are Python threads, so two small blocks do all the work.
THREADS, MOST_BLOCKS = (4, 2) if is_simulated() else (THREADS_A_BLOCK, 1024)
ROWS_A_THREAD = 8  # minimum, because each block initialises and merges its own table
FEW_CODES = 4_096  # 16 KiB of shared memory
FEW_CELLS = 1_024  # the same size, for two numbers of 8 bytes each


@array_formula
def _add_threads(n, null, first, second, t):
    """Sum the values of all threads of a block into the first element; all threads call it."""
    step = THREADS // 2
    cuda.syncthreads()
    while step > 0:
        if t < step:
            n[t] += n[t + step]
            null[t] += null[t + step]
            first[t] += first[t + step]
            second[t] += second[t + step]
        cuda.syncthreads()
        step //= 2


def _reduce_add_up(x, pivot, room):
    """Write four numbers per block: values added, nulls, and the sums of ``x - pivot`` and of its square."""
    n = cuda.shared.array(THREADS, float64)
    null = cuda.shared.array(THREADS, float64)  # one per line: the simulator identifies shared arrays by line
    first = cuda.shared.array(THREADS, float64)
    second = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    n_added, n_null, sum_1, sum_2 = 0, 0, 0.0, 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        away = float64(x[i]) - pivot
        if abs(away) <= FLOAT32_MAX:
            n_added += 1
            sum_1 += away
            sum_2 += away * away
        elif away != away:  # infinities do not count as nulls: the pivot is finite
            n_null += 1
    n[t], null[t], first[t], second[t] = n_added, n_null, sum_1, sum_2
    _add_threads(n, null, first, second, t)
    if t == 0:
        at = 4 * cuda.blockIdx.x
        room[at], room[at + 1], room[at + 2], room[at + 3] = n[0], null[0], first[0], second[0]


def _reduce_join(room, n_blocks, out):
    """Sum the results of the blocks, in one block."""
    n = cuda.shared.array(THREADS, float64)
    null = cuda.shared.array(THREADS, float64)
    first = cuda.shared.array(THREADS, float64)
    second = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    n[t], null[t], first[t], second[t] = 0.0, 0.0, 0.0, 0.0
    for block in range(t, n_blocks, THREADS):
        n[t] += room[4 * block]
        null[t] += room[4 * block + 1]
        first[t] += room[4 * block + 2]
        second[t] += room[4 * block + 3]
    _add_threads(n, null, first, second, t)
    if t == 0:
        out[0], out[1], out[2], out[3] = n[0], null[0], first[0], second[0]


def _reduce_count(codes, counts):
    few = cuda.shared.array(FEW_CODES, int32)
    t = cuda.threadIdx.x
    if counts.size > FEW_CODES:
        for i in range(cuda.grid(1), codes.size, cuda.gridsize(1)):
            cuda.atomic.add(counts, codes[i], 1)
        return
    for code in range(t, counts.size, THREADS):
        few[code] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), codes.size, cuda.gridsize(1)):
        cuda.atomic.add(few, codes[i], 1)
    cuda.syncthreads()
    for code in range(t, counts.size, THREADS):
        if few[code]:
            cuda.atomic.add(counts, code, few[code])


def _reduce_bin(x, edges, low, high, counts):
    few = cuda.shared.array(FEW_CODES, int32)
    t = cuda.threadIdx.x
    is_few = counts.size <= FEW_CODES
    if is_few:
        for at in range(t, counts.size, THREADS):
            few[at] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        value = x[i]
        at = 0
        if value >= low and value <= high:
            least, most = 0, edges.size
            while least < most:
                middle = (least + most) // 2
                if edges[middle] <= value:
                    least = middle + 1
                else:
                    most = middle
            at = least + 1
        if is_few:
            cuda.atomic.add(few, at, 1)
        else:
            cuda.atomic.add(counts, at, 1)
    cuda.syncthreads()
    if is_few:
        for at in range(t, counts.size, THREADS):
            if few[at]:
                cuda.atomic.add(counts, at, few[at])


def _reduce_total(cell, y, scale, rest_scale, coarse, fine):
    """Sum ``y * scale`` as integers: the integer part, and the remainder in units of ``1 / rest_scale``."""
    few_coarse = cuda.shared.array(FEW_CELLS, int64)
    few_fine = cuda.shared.array(FEW_CELLS, int64)
    t = cuda.threadIdx.x
    is_few = coarse.size <= FEW_CELLS
    if is_few:
        for at in range(t, coarse.size, THREADS):
            few_coarse[at], few_fine[at] = 0, 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), cell.size, cuda.gridsize(1)):
        scaled = y[i] * scale
        whole = float64(math.floor(scaled + 0.5))
        rest = int64(math.floor((scaled - whole) * rest_scale + 0.5))
        if is_few:
            cuda.atomic.add(few_coarse, cell[i], int64(whole))
            cuda.atomic.add(few_fine, cell[i], rest)
        else:
            cuda.atomic.add(coarse, cell[i], int64(whole))
            cuda.atomic.add(fine, cell[i], rest)
    cuda.syncthreads()
    if is_few:
        for at in range(t, coarse.size, THREADS):
            cuda.atomic.add(coarse, at, few_coarse[at])
            cuda.atomic.add(fine, at, few_fine[at])


def _reduce_fold(start, bits, n_folds, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = fold_of(start + i, bits, n_folds)


add_up = DeviceLoop(_reduce_add_up, "T[::1]", "float64", F64, types=("float32", "float64"))
join = DeviceLoop(_reduce_join, F64, "int64", F64)
count = DeviceLoop(_reduce_count, "T[::1]", I64, types=("int8", "int16", "int32", "int64"))
total = DeviceLoop(_reduce_total, "T[::1]", F64, "float64", "float64", I64, I64, types=("int32", "int64"))
bin_values = DeviceLoop(_reduce_bin, "T[::1]", "T[::1]", "T", "T", I64, types=("float32", "float64", "int64"))
fold = DeviceLoop(_reduce_fold, "int64", "int64", "int64", I8)
