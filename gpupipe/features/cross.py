"""Pairs of categories as one category."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpupipe.errors import ConfigError, LimitError
from gpupipe.features.base import OPS, Op, State
from gpupipe.features.builder import Builder
from gpupipe.features.columns import Codes, IndexStep, Virtual
from gpupipe.table.schema import FIRST_LEVEL

MOST_PAIRS = 2**24


@OPS.register("cross")
class Cross(Op):
    """Make one categorical column of two: its levels are the pairs, or `buckets` hashes of them.

    The new column is named by `as` (``City_x_Contract`` if not) and goes into the matrix through ops that select it:
    one_hot, target_encode, frequency_encode, categorify. The pairs are hashed, not the rows. Null and levels never
    seen take part in a hashed pair as such; in a plain cross they make the pair null and unseen.
    """

    name: str | None = Field(None, alias="as", description="Name of the new column.")
    buckets: int | None = Field(None, ge=2, le=2**20, description="Hash the pairs to so many buckets.")

    def select(self, builder: Builder) -> list[Virtual]:
        columns = builder.codes(self.columns, "cross")
        if len(columns) != 2:
            raise ConfigError(f"cross takes two columns, got {len(columns)}", fix="columns: [City, Contract]")
        left, right = columns
        if _is_plain(left) and not _is_plain(right):
            left, right = right, left
        if not _is_plain(right):
            raise ConfigError(f"cross: one of {left.name!r} and {right.name!r} must be a column that was read")
        if left.size * right.size > MOST_PAIRS:
            raise LimitError(
                f"cross of {left.name!r} and {right.name!r} has {left.size * right.size:,} pairs of levels",
                fix="hash_bucket one of them first",
            )
        return [_pair(left, right, self.name or f"{columns[0].name}_x_{columns[1].name}", self.buckets)]

    def lower(self, column: Virtual, state: State, builder: Builder) -> None:
        builder.add(column)


def _is_plain(column: Codes) -> bool:
    return len(column.index) == 1 and column.index[0].op == "INDEX"


def _codes(column: Codes) -> Any:
    import numpy as np

    return np.arange(column.size) if column.remap is None else np.asarray(column.remap)


def _pair(left: Codes, right: Codes, name: str, buckets: int | None) -> Codes:
    index = (*left.index, IndexStep("INDEX_PAIR", right.index[0].source, stride=right.size))
    if buckets is not None:
        labels, remap = tuple(str(i) for i in range(buckets)), _hashed(left, right, buckets)
    else:
        rights = [_written(y) for y in right.labels]
        labels, remap = tuple(f"{_written(x)}|{y}" for x in left.labels for y in rights), _plain(left, right)
    inputs = tuple(dict.fromkeys((*left.inputs, *right.inputs)))
    return Codes(name, inputs, index, left.size * right.size, labels, remap.reshape(-1))


def _written(label: str) -> str:
    """Return a label so that two pairs are never written alike."""
    return label.replace("\\", "\\\\").replace("|", "\\|")


def _plain(left: Codes, right: Codes) -> Any:
    """Return the code of each pair of raw indices, shape (left.size, right.size); the reserved ids win, null first."""
    import numpy as np

    a, b = np.meshgrid(_codes(left), _codes(right), indexing="ij")
    pairs = FIRST_LEVEL + (a - FIRST_LEVEL) * len(right.labels) + (b - FIRST_LEVEL)
    return np.where(np.minimum(a, b) < FIRST_LEVEL, np.minimum(a, b), pairs)


def _hashed(left: Codes, right: Codes, buckets: int) -> Any:
    """Return the bucket code of each pair of raw indices, shape (left.size, right.size)."""
    import numpy as np

    from gpupipe_kernels.hashing import hash_pairs, hash_strings

    # A reserved id hashes as a text that no reader can deliver as a level.
    a = hash_strings(["\0null", "\0unseen", "\0rare", *left.labels])[_codes(left)]
    b = hash_strings(["\0null", "\0unseen", "\0rare", *right.labels])[_codes(right)]
    return FIRST_LEVEL + (hash_pairs(a, b) % np.uint32(buckets)).astype(np.int64)
