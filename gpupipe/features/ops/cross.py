"""Combinations of categorical columns as one column."""

from __future__ import annotations

from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

from pydantic import Field

from gpupipe.errors import ConfigError, LimitError
from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, IndexTerm
from gpupipe.table.schema import FIRST_LEVEL, UNSEEN

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics

MOST_COMBINATIONS = 2**24
RESERVED = ("\0null", "\0unseen", "\0rare")  # texts that no reader returns as a level


@OPS.register("cross")
class Cross(Op[CategoryExpr]):
    """Combine two or more categorical columns into one, whose levels are the combinations in the training rows.

    Later ops select the new column like any other: ``target_encode: city_plan``, or ``encode: "@categorical"``. If no
    op selects it, `auto` encodes it. The crossed columns remain features.

    A null in any column makes the combination null; otherwise an unseen level or a combination that is not in the
    training rows makes it unseen. With `buckets`, the combinations (of null and unseen levels as well) are hashed to
    that many levels instead. At most one of the columns may be made by bucketize or another cross. Row weights
    (``source.weight``) do not change it.

    Output: a categorical column, ``city_x_plan`` unless ``as`` names it, with levels such as ``Rome|basic``.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"city": ["Rome", "Rome", "Oslo"], "plan": ["basic", "plus", "basic"]})
        >>> both = ["city", "plan"]
        >>> ops = [{"cross": {"columns": both, "as": "deal"}}, {"one_hot": "deal"}, {"drop": both}]
        >>> program = FeatureProgram(ops).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           deal=Oslo|basic  deal=Rome|basic  deal=Rome|plus
        0              0.0              1.0             0.0
        1              0.0              0.0             1.0
        2              1.0              0.0             0.0
    """

    name: str | None = Field(None, alias="as", description="Name of the new column; default: A_x_B.")
    buckets: int | None = Field(
        None,
        ge=2,
        le=2**20,
        description="Number of levels to hash the combinations to; default: one level for each combination.",
    )

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        columns = builder.select_categories(self.columns, "cross")
        if len(columns) < 2:
            raise ConfigError(
                f"cross takes two or more columns; got {len(columns)}",
                fix="columns: [City, Contract]",
            )
        builder.consumed.update(column.name for column in columns)
        name = self.name or "_x_".join(column.name for column in columns)
        return [cross_columns(columns, name, self.buckets, builder.statistics)]

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        builder.add(column)


def is_plain(column: CategoryExpr) -> bool:
    """Return whether the raw index of a column is its codes in the table."""
    return len(column.index) == 1 and column.index[0].op == "INDEX"


def cross_columns(columns: list[CategoryExpr], name: str, buckets: int | None, statistics: Statistics) -> CategoryExpr:
    """Return the combinations of `columns` as a column called `name`.

    Raise ConfigError if more than one of them is not plain, and LimitError if there are too many combinations.
    """
    made = [column for column in columns if not is_plain(column)]
    if len(made) > 1:
        raise ConfigError(
            f"cross: {made[0].name!r} and {made[1].name!r} are both made by ops; at most one may be",
            fix="cross the input columns first, then the result with the other column",
            names=[made[0].name, made[1].name],
        )
    if (n := prod(column.size for column in columns)) > MOST_COMBINATIONS:
        raise LimitError(
            f"cross of {' and '.join(repr(c.name) for c in columns)} has {n:,} combinations of levels",
            fix=f"at most {MOST_COMBINATIONS:,}: hash_bucket a column first, or cross fewer columns",
        )
    # The index is computed from left to right, so a column whose index takes several steps must be first.
    ordered = sorted(columns, key=is_plain)
    first, *others = ordered
    index = (*first.index, *(IndexTerm("INDEX_PAIR", c.index[0].source, stride=c.size) for c in others))
    inputs = tuple(dict.fromkeys(chain.from_iterable(column.inputs for column in columns)))
    raw = CategoryExpr(name, inputs, index, prod(column.size for column in columns), (), root=name)
    if buckets is not None:
        labels, remap = tuple(map(str, range(buckets))), _hashed(ordered, buckets)
    else:
        labels, remap = _seen(columns, ordered, statistics.counts([raw])[0])
    return CategoryExpr(name, inputs, index, raw.size, labels, remap, root=name)


def _codes(column: CategoryExpr) -> Any:
    """Return the code of each raw index of a column."""
    import numpy as np

    return np.arange(column.size, dtype=np.int32) if column.remap is None else np.asarray(column.remap, np.int32)


def _seen(columns: list[CategoryExpr], ordered: list[CategoryExpr], counts: Any) -> tuple[tuple[str, ...], Any]:
    """Return the labels of the combinations that occur in the rows, and the code of each raw index.

    Combinations are in the order of the levels of `columns`, which are in the order of the selection; `ordered` has
    them in the order of the index. A combination of reserved codes has the smallest of them: null before unseen before
    rare. `counts` has the number of rows of each raw index.
    """
    import numpy as np

    codes = [_codes(column) for column in ordered]
    shape = [len(code) for code in codes]
    remap = np.full(len(counts), FIRST_LEVEL, np.int32)
    for axis, code in enumerate(codes):
        table = remap.reshape(shape)
        np.minimum(table, code.reshape([-1 if i == axis else 1 for i in range(len(codes))]), out=table)
    remap[remap == FIRST_LEVEL] = UNSEEN

    raw = np.flatnonzero(counts)
    by_name = {c.name: code[at] for c, code, at in zip(ordered, codes, np.unravel_index(raw, shape), strict=True)}
    levels = np.stack([by_name[column.name] for column in columns]) - FIRST_LEVEL  # (columns, raw)
    complete = levels.min(axis=0) >= 0
    key = np.ravel_multi_index(levels[:, complete], [max(1, len(c.labels)) for c in columns])
    found, place = np.unique(key, return_inverse=True)
    remap[raw[complete]] = FIRST_LEVEL + place
    parts = np.unravel_index(found, [max(1, len(column.labels)) for column in columns])
    written = [[_written(label) for label in column.labels] for column in columns]
    labels = ("|".join(w[i] for w, i in zip(written, row, strict=True)) for row in zip(*parts, strict=True))
    return tuple(labels), remap


def _written(label: str) -> str:
    """Return a label escaped so that labels of different combinations differ."""
    return label.replace("\\", "\\\\").replace("|", "\\|")


def _hashed(ordered: list[CategoryExpr], buckets: int) -> Any:
    """Return the bucket code of each raw index."""
    import numpy as np

    from gpupipe_kernels.formulas.hashes import hash_pairs, hash_strings

    found: Any = None
    for column in ordered:
        own = hash_strings([*RESERVED, *column.labels])[_codes(column)]
        found = own if found is None else hash_pairs(found, own).reshape(-1)
    return FIRST_LEVEL + (found % np.uint32(buckets)).astype(np.int64)
