"""Codes of columns with buckets or given levels. NumPy only, so that single rows are encoded without Arrow."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from gpupipe.table.level_text import normal_form
from gpupipe.table.schema import FIRST_LEVEL, UNSEEN, Column
from gpupipe_kernels.formulas.hashes import hash_strings


def hash_levels(column: Column, levels: Iterable[str]) -> npt.NDArray[np.int64]:
    """Return the code in a hashed column of each level: that of a given level, else of its bucket, else `UNSEEN`.

    Texts are hashed and compared in their normal form, so that those of one value have the same code.
    """
    form = normal_form(column.dtype) if column.has_normal_form else str
    forms, given = [form(level) for level in levels], column.levels or ()
    if column.n_buckets:
        codes = bucket_codes(forms, column.n_buckets) + len(given)
    else:
        codes = np.full(len(forms), UNSEEN, np.int64)
    if given:
        places = {form(level): FIRST_LEVEL + i for i, level in enumerate(given)}
        codes = np.array([places.get(text, code) for text, code in zip(forms, codes.tolist(), strict=True)], np.int64)
    return codes


def bucket_codes(values: list[str] | tuple[str, ...], n_buckets: int) -> npt.NDArray[np.int64]:
    """Return the code of each string's hash bucket."""
    return (hash_strings(values) % np.uint32(n_buckets)).astype(np.int64) + FIRST_LEVEL
