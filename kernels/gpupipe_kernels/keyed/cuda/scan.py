"""Prefix scans over events on the device: running sums and ranks, in tiles of events.

Each block first sums its tile; one block then scans the sums of the tiles; finally each block processes its tile again,
starting from the sum before it. Within a block, every thread processes `ITEMS` consecutive events, and the sums of the
threads are scanned in shared memory by doubling (W. D. Hillis and G. L. Steele, "Data parallel algorithms",
Communications of the ACM 29 (1986) 1170). A single key with half of all events is as fast as a million keys.
"""

from __future__ import annotations

from numba import float64, int32

from gpupipe_kernels.device.language import cuda
from gpupipe_kernels.device.parameters import F64, I32, I64, U8
from gpupipe_kernels.keyed.formulas import share_at
from gpupipe_kernels.keyed.pairs import advance, term_at
from gpupipe_kernels.launch import THREADS_A_BLOCK, DeviceLoop, array_formula, is_simulated

# Simulator threads are Python threads, so two small blocks do all the work.
THREADS, MOST_THREADS = (4, 8) if is_simulated() else (THREADS_A_BLOCK, 2**31 - 1)
ITEMS = 8
TILE = THREADS * ITEMS


@array_formula
def _scan_sums(share, hi, lo, t):
    """Replace the sum of each thread by the inclusive prefix sum; all threads of a block call it."""
    step = 1
    cuda.syncthreads()
    while step < THREADS:
        a, s, s_lo = 1.0, 0.0, 0.0
        if t >= step:
            a = share[t] * share[t - step]
            s, s_lo = advance(share[t], hi[t - step], lo[t - step], hi[t], lo[t])
        cuda.syncthreads()
        if t >= step:
            share[t], hi[t], lo[t] = a, s, s_lo
        cuda.syncthreads()
        step *= 2


@array_formula
def _scan_counts(counts, t):
    """Replace the count of each thread by the inclusive prefix sum; all threads of a block call it."""
    step = 1
    cuda.syncthreads()
    while step < THREADS:
        more = counts[t - step] if t >= step else 0
        cuda.syncthreads()
        counts[t] += more
        cuda.syncthreads()
        step *= 2


@array_formula
def _add_items(values, time, head, rate, squared, begin, end, share, hi, lo, t):
    """Write the sum of the events ``begin:end`` of thread `t`, and the share of the earlier sum that remains."""
    a, s, s_lo = 1.0, 0.0, 0.0
    for i in range(begin, end):
        kept = share_at(i, time, head, rate)
        x, x_lo = term_at(i, values, squared)
        s, s_lo = advance(kept, s, s_lo, x, x_lo)
        a *= kept
    share[t], hi[t], lo[t] = a, s, s_lo


def _keyed_sum_tiles(values, time, head, rate, squared, tile_share, tile_hi, tile_lo):
    share = cuda.shared.array(THREADS, float64)
    hi = cuda.shared.array(THREADS, float64)  # one per line: the simulator identifies shared arrays by line
    lo = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    for tile in range(cuda.blockIdx.x, tile_hi.size, cuda.gridDim.x):
        begin = tile * TILE + t * ITEMS
        _add_items(values, time, head, rate, squared, begin, min(begin + ITEMS, time.size), share, hi, lo, t)
        _scan_sums(share, hi, lo, t)
        if t == THREADS - 1:
            tile_share[tile], tile_hi[tile], tile_lo[tile] = share[t], hi[t], lo[t]
        cuda.syncthreads()


def _keyed_join_tiles(tile_share, tile_hi, tile_lo):
    """Replace the sum of each tile by the sum before it, in one block."""
    share = cuda.shared.array(THREADS, float64)
    hi = cuda.shared.array(THREADS, float64)  # one per line: the simulator identifies shared arrays by line
    lo = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    before, before_lo = 0.0, 0.0
    for first in range(0, tile_hi.size, THREADS):
        tile = first + t
        share[t], hi[t], lo[t] = 1.0, 0.0, 0.0
        if tile < tile_hi.size:
            share[t], hi[t], lo[t] = tile_share[tile], tile_hi[tile], tile_lo[tile]
        _scan_sums(share, hi, lo, t)
        s, s_lo = before, before_lo
        if t > 0:
            s, s_lo = advance(share[t - 1], before, before_lo, hi[t - 1], lo[t - 1])
        if tile < tile_hi.size:
            tile_hi[tile], tile_lo[tile] = s, s_lo
        before, before_lo = advance(share[THREADS - 1], before, before_lo, hi[THREADS - 1], lo[THREADS - 1])
        cuda.syncthreads()


def _keyed_running_sums(values, time, head, rate, squared, tile_hi, tile_lo, out, out_lo):
    share = cuda.shared.array(THREADS, float64)
    hi = cuda.shared.array(THREADS, float64)  # one per line: the simulator identifies shared arrays by line
    lo = cuda.shared.array(THREADS, float64)
    t = cuda.threadIdx.x
    for tile in range(cuda.blockIdx.x, tile_hi.size, cuda.gridDim.x):
        begin = tile * TILE + t * ITEMS
        end = min(begin + ITEMS, time.size)
        _add_items(values, time, head, rate, squared, begin, end, share, hi, lo, t)
        _scan_sums(share, hi, lo, t)
        s, s_lo = tile_hi[tile], tile_lo[tile]
        if t > 0:
            s, s_lo = advance(share[t - 1], s, s_lo, hi[t - 1], lo[t - 1])
        for i in range(begin, end):
            x, x_lo = term_at(i, values, squared)
            s, s_lo = advance(share_at(i, time, head, rate), s, s_lo, x, x_lo)
            out[i], out_lo[i] = s, s_lo
        cuda.syncthreads()


def _keyed_count_tiles(flags, tile_count):
    counts = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    for tile in range(cuda.blockIdx.x, tile_count.size, cuda.gridDim.x):
        begin = tile * TILE + t * ITEMS
        counts[t] = 0
        for i in range(begin, min(begin + ITEMS, flags.size)):
            counts[t] += flags[i]
        _scan_counts(counts, t)
        if t == THREADS - 1:
            tile_count[tile] = counts[t]
        cuda.syncthreads()


def _keyed_join_counts(tile_count):
    """Replace the count of each tile by the count before it, in one block."""
    counts = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    before = 0
    for first in range(0, tile_count.size, THREADS):
        tile = first + t
        counts[t] = tile_count[tile] if tile < tile_count.size else 0
        _scan_counts(counts, t)
        if tile < tile_count.size:
            tile_count[tile] = before + (counts[t - 1] if t > 0 else 0)
        before += counts[THREADS - 1]
        cuda.syncthreads()


def _keyed_rank(flags, tile_count, rank):
    """Write the number of set flags before each position, and in total."""
    counts = cuda.shared.array(THREADS, int32)
    t = cuda.threadIdx.x
    for tile in range(cuda.blockIdx.x, tile_count.size, cuda.gridDim.x):
        begin = tile * TILE + t * ITEMS
        end = min(begin + ITEMS, flags.size)
        counts[t] = 0
        for i in range(begin, end):
            counts[t] += flags[i]
        _scan_counts(counts, t)
        before = tile_count[tile] + (counts[t - 1] if t > 0 else 0)
        for i in range(begin, end):
            rank[i] = before
            before += flags[i]
        if begin < flags.size and end == flags.size:
            rank[end] = before
        cuda.syncthreads()


sum_tiles = DeviceLoop(_keyed_sum_tiles, F64, I64, U8, "float64", "boolean", F64, F64, F64)
join_tiles = DeviceLoop(_keyed_join_tiles, F64, F64, F64)
running_sums = DeviceLoop(_keyed_running_sums, F64, I64, U8, "float64", "boolean", F64, F64, F64, F64)
count_tiles = DeviceLoop(_keyed_count_tiles, U8, I32)
join_counts = DeviceLoop(_keyed_join_counts, I32)
rank = DeviceLoop(_keyed_rank, U8, I32, I32)
