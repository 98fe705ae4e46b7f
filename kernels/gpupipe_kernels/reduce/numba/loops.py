"""Compiled loops of `gpupipe_kernels.reduce.numba.engine`; each reads its rows from memory once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import float64, int64, uint32, uint64

from gpupipe_kernels.launch import formula, host_block, host_step
from gpupipe_kernels.reduce.engine import BLOCK_ROWS, FLOAT32_MAX, LANES
from gpupipe_kernels.reduce.formulas import fold_of

TILE = 1_024  # rows whose flags or cells fit into the L1 cache
GRID_CELLS = 2_048  # fits into the L1 cache with a tile
NARROWEST = 1e-30  # of a grid, so that no number overflows
TABLES = 4
ONES = uint64(0x0101010101010101)
SEVENS = uint64(0x7F7F7F7F7F7F7F7F)
EVEN_BYTES = uint64(0x00FF00FF00FF00FF)
QUARTERS = uint64(0x0001000100010001)
WORDS_AT_ONCE = 255  # so that a byte counter does not overflow


@host_block
def sweep(x, pivot, sums, brackets, out, found):
    flags, hits = np.zeros(TILE, np.uint8), np.empty(TILE // 8 + 1, np.int64)
    n_added, n_null = 0, 0
    for block in range(0, x.size, BLOCK_ROWS):
        end = min(block + BLOCK_ROWS, x.size)
        lanes = np.zeros((2, LANES))
        for low in range(block, end, TILE):
            tile = x[low : min(low + TILE, end)]
            if len(sums):
                added, null = _add_up(tile, pivot, lanes)
                n_added += added
                n_null += null
            for k in range(len(brackets)):
                _collect(tile, brackets[k, 0], brackets[k, 1], flags, hits, out[k], found[k])
        for row in range(len(sums)):
            for lane in range(LANES):
                sums[row, lane] += lanes[row, lane]
    return n_added, n_null


@host_step
def _add_up(x, pivot, lanes):
    first, second = lanes[0], lanes[1]
    n_added, n_null = 0, 0
    for low in range(0, x.size, LANES):
        part = x[low : low + LANES]
        for lane in range(part.size):
            away = float64(part[lane]) - pivot
            is_near: Any = abs(away) <= FLOAT32_MAX
            distance = away if is_near else 0.0
            first[lane] += distance
            second[lane] += distance * distance
            n_added += is_near
            n_null += part[lane] != part[lane]
    return n_added, n_null


@host_step
def _collect(x, low, high, flags, hits, out, found):
    n_below, n_inside = 0, found[1]
    for i in range(x.size):
        n_below += x[i] < low
    found[0] += n_below
    if low == high:
        n_equal = 0
        for i in range(x.size):
            n_equal += x[i] == low
        found[1] += n_equal
        return
    for i in range(x.size):
        flags[i] = (x[i] >= low) & (x[i] <= high)
    # Few values are inside: list the words of eight flags that have one, without a branch that could be mispredicted.
    words = flags.view(np.uint64)
    n_hits = 0
    for word in range((x.size + 7) // 8):
        hits[n_hits] = 8 * word
        n_hits += words[word] != 0
    for hit in range(n_hits):
        for i in range(hits[hit], min(hits[hit] + 8, x.size)):
            out[n_inside] = x[i]
            n_inside += flags[i]
    found[1] = n_inside


@formula
def _sum_of_bytes(word):
    """Return the sum of the eight bytes of a word."""
    pairs = (word & EVEN_BYTES) + ((word >> uint64(8)) & EVEN_BYTES)
    return int64((pairs * QUARTERS) >> uint64(48))


@host_block
def count_few(words, counts):
    """Count the codes in words of eight, from the last code down, because the first, reserved codes are rare."""
    for low in range(0, words.size, WORDS_AT_ONCE):
        part = words[low : low + WORDS_AT_ONCE]
        left = 8 * part.size
        for code in range(counts.size - 1, -1, -1):
            if left == 0:
                break
            pattern = ONES * uint64(code)
            others = uint64(0)  # non-zero bytes are other codes: adding 127 sets a byte's top bit
            for i in range(part.size):
                others += (((part[i] ^ pattern) + SEVENS) >> uint64(7)) & ONES
            found = 8 * part.size - _sum_of_bytes(others)
            counts[code] += found
            left -= found


@host_block
def count(codes, counts):
    for i in range(codes.size):
        counts[uint32(codes[i])] += 1


@formula
def _grid_cell(value, first, scale, least, most):
    """Return the cell of a value in a grid of equal cells; it never descends as the value ascends."""
    return np.int32(min(max((value - first) * scale, least), most))


@host_step
def _fill_grid(edges, skipped, grid, below):
    """Lay the grid over the edges without some at either end; return the largest number of edges in a cell.

    `below` receives the number of edges in the cells before each cell.
    """
    grid[0] = edges[skipped]
    width = float64(edges[edges.size - 1 - skipped]) - float64(grid[0])
    grid[1] = GRID_CELLS / width if width > NARROWEST else 0.0
    below[:] = uint32(0)
    for k in range(edges.size):
        below[_grid_cell(edges[k], grid[0], grid[1], grid[2], grid[3]) + 1] += uint32(1)
    largest = uint32(0)
    for cell in range(GRID_CELLS):
        largest = max(largest, below[cell + 1])
        below[cell + 1] += below[cell]
    return int64(largest)


@host_block
def bin_values(x, edges, low, high, unit, counts):
    """Count values in bins: a grid tells the edges below the cell of a value, and bisections find the others in it.

    All values of a tile go through a step together, without branches. `unit` has the float type of the grid.
    """
    grid, below = np.zeros(4, unit.dtype), np.zeros(GRID_CELLS + 1, np.uint32)
    grid[3] = GRID_CELLS - 1
    half = int64(0)
    if edges.size:
        chosen, fewest = 0, _fill_grid(edges, 0, grid, below)
        skipped = 1
        while fewest > skipped and 2 * skipped + 1 < edges.size:  # of long tails, a cell at either end has some edges
            largest = _fill_grid(edges, skipped, grid, below)
            if largest < fewest:
                chosen, fewest = skipped, largest
            skipped *= 2
        fewest = _fill_grid(edges, chosen, grid, below)
        half = int64(1)
        while 2 * half <= fewest:
            half *= 2
    padded = np.empty(edges.size + 2 * half + 1, edges.dtype)
    for k in range(padded.size):
        padded[k] = edges[min(k, edges.size - 1)] if edges.size else low
    bins, tables = np.empty(TILE, np.uint32), np.zeros((TABLES, counts.size), np.int64)
    n_edges = uint32(edges.size)
    for start in range(0, x.size, TILE):
        tile = x[start : min(start + TILE, x.size)]
        for i in range(tile.size):
            value = tile[i] if (tile[i] >= low) & (tile[i] <= high) else low
            bins[i] = below[_grid_cell(value, grid[0], grid[1], grid[2], grid[3])]
        step = half
        while step > 0:
            ahead = uint32(step)
            for i in range(tile.size):
                at = bins[i]
                bins[i] = at + (ahead if padded[at + ahead - uint32(1)] <= tile[i] else uint32(0))
            step //= 2
        for i in range(tile.size):
            is_valid: Any = (tile[i] >= low) & (tile[i] <= high)
            bins[i] = (min(bins[i], n_edges) + uint32(1)) * uint32(is_valid)
        whole = tile.size - tile.size % TABLES
        for i in range(0, whole, TABLES):  # the next value often is in the same bin, which would wait for the last
            for table in range(TABLES):
                tables[table, bins[i + table]] += 1
        for i in range(whole, tile.size):
            tables[0, bins[i]] += 1
    for table in range(TABLES):
        for at in range(counts.size):
            counts[at] += tables[table, at]


@host_block
def fold(start, seed, n_folds, out):
    for i in range(out.size):
        out[i] = fold_of(start + i, seed, n_folds)


@host_step
def _add_codes(codes, stride, cell):
    step = np.int32(stride)
    for i in range(cell.size):
        cell[i] = np.int32(cell[i] * step + np.int32(codes[i]))


@host_block
def tally(int8, int16, int32, made_int8, made_int16, made_int32, steps, y, start, stop, counts, totals):
    """Add rows to cells; `steps` contains block, row and stride."""
    cells = np.empty(TILE, np.int32)
    for low in range(start, stop, TILE):
        high = min(low + TILE, stop)
        cell = cells[: high - low]
        cell[:] = 0
        for step in range(len(steps)):
            block = steps[step, 0]
            row = steps[step, 1]
            stride = steps[step, 2]
            if block == 0:
                _add_codes(int8[row, low:high], stride, cell)
            elif block == 1:
                _add_codes(int16[row, low:high], stride, cell)
            elif block == 2:
                _add_codes(int32[row, low:high], stride, cell)
            elif block == 3:
                _add_codes(made_int8[row, low:high], stride, cell)
            elif block == 4:
                _add_codes(made_int16[row, low:high], stride, cell)
            else:
                _add_codes(made_int32[row, low:high], stride, cell)
        for i in range(cell.size):
            counts[uint32(cell[i])] += 1
        if totals.size:
            for i in range(cell.size):
                totals[uint32(cell[i])] += y[low + i]
