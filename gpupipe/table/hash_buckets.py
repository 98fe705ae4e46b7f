"""Codes of hashed columns. NumPy only, so that single rows are encoded without Arrow."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from gpupipe.table.level_text import normal_form
from gpupipe.table.schema import FIRST_LEVEL, Column
from gpupipe_kernels.formulas.hashes import hash_strings


def hash_levels(column: Column, levels: Iterable[str]) -> npt.NDArray[np.int64]:
    """Return the code in a hashed column of each level.

    There are no levels to compare with, so the texts of one value are hashed in their normal form.
    """
    form = normal_form(column.dtype) if column.has_normal_form else str
    return bucket_codes([form(level) for level in levels], column.n_buckets)


def bucket_codes(values: list[str] | tuple[str, ...], n_buckets: int) -> npt.NDArray[np.int64]:
    """Return the code of each string's hash bucket."""
    return (hash_strings(values) % np.uint32(n_buckets)).astype(np.int64) + FIRST_LEVEL
