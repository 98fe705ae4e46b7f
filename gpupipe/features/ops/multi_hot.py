"""Indicators of the items of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.levels_op import ListLevelsOp
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.table.list_columns import Lists


@OPS.register("multi_hot")
class MultiHot(ListLevelsOp):
    """Add an indicator column for each distinct item of lists: 1 in the rows whose list contains it, 0 elsewhere.

    The `max_levels` most frequent items of the training rows have a column, by the number of rows that contain them;
    ties go to the lower one. Row weights (``source.weight``) count. Other items, and those that are not in the training
    rows, are ignored. A null or empty list is 0 in all columns.

    Output: ``tags=blue``, ``tags=red``, ...; float32, never null. Models of scaled numbers take the columns as they
    are. Lists are computed on the CPU.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"tags": [["red", "blue"], ["red", "red"], [], None]})
        >>> program = FeatureProgram([{"multi_hot": "tags"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           tags=blue  tags=red
        0        1.0       1.0
        1        0.0       1.0
        2        0.0       0.0
        3        0.0       0.0
    """

    HAS_SCALE: ClassVar[bool] = True

    max_levels: int | None = Field(
        64, ge=1, description="Maximum number of items with a column, the most frequent ones; null: no limit."
    )

    def names(self, column: str, kind: str) -> list[str]:
        """Return ``tags=blue``, ``tags=red``, …"""
        from gpupipe.table.level_text import canonical_text

        self.require_levels(column, kind)
        levels = self.known_levels(column)
        return [f"{column}={level if isinstance(level, str) else canonical_text(float(level))}" for level in levels]

    def matrix(self, lists: Lists, column: str) -> HostArray:
        """Return the indicator of each level, float32, shape (n_levels, len(lists))."""
        import numpy as np

        levels = self.known_levels(column)
        found = np.zeros((len(levels), len(lists)), np.float32)
        slots = {level: i for i, level in enumerate(levels)}
        codes, values = lists.codes
        of_code = np.array([slots.get(value, -1) for value in values], np.int64)
        of_item = of_code[codes]
        is_kept = of_item >= 0
        found[of_item[is_kept], lists.rows[lists.is_known][is_kept]] = 1.0
        return found
