"""Splits of packed trees as numbers, missing values and sets of categories; see `gpupipe_kernels.rows.trees`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpupipe.inference.targets.exact_columns import NumberSplits
from gpupipe_kernels.rows.trees import WORD, PackedTrees, ordered_codes

if TYPE_CHECKING:
    from gpupipe.typing import HostArray


def split_columns(packed: PackedTrees) -> HostArray:
    """Return the column that each node splits; of leaves, any."""
    found: HostArray = (packed.nodes["column"].astype(np.int64) - 1) % packed.n_columns
    return found


def number_splits(packed: PackedTrees) -> NumberSplits:
    """Return the splits by numbers; the column of leaves and of splits by categories is -1."""
    nodes = packed.nodes
    by_set, is_leaf = nodes["words"] > 0, nodes["child"] == np.arange(len(nodes))
    missing_left = ~by_set & ((nodes["column"].astype(np.int64) - 1) // packed.n_columns == 0)
    return NumberSplits(np.where(is_leaf | by_set, -1, split_columns(packed)), _floats(nodes["code"]), missing_left)


def _floats(codes: HostArray) -> HostArray:
    """Return the float64 numbers of codes of thresholds; -inf for the code that sends no number to the left."""
    codes = np.ascontiguousarray(codes, np.int32)
    with np.errstate(invalid="ignore"):
        found = ordered_codes(codes.view(np.float32)).view(np.float32).astype(np.float64)  # its own inverse
    return np.where(np.isnan(found), -np.inf, found)


def category_bits(packed: PackedTrees, members: list[int], n_codes: int) -> HostArray:
    """Return 1 for the codes that splits send to the right, uint8, shape (n_splits, n_codes)."""
    first = packed.nodes["words"][members].astype(np.int64)[:, None]
    last = packed.nodes["code"][members].astype(np.int64)[:, None]
    code = np.arange(n_codes)
    word = packed.words[first + np.minimum(code // WORD + 1, last)]
    bits: HostArray = ((word >> (code % WORD).astype(np.uint32)) & 1).astype(np.uint8)
    return bits
