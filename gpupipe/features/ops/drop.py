"""Removal of columns from the features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.features.ops.base import OPS, SelectingOp

if TYPE_CHECKING:
    from gpupipe.features.program.builder import ProgramBuilder


@OPS.register("drop")
class Drop(SelectingOp):
    """Remove columns from the features, for example coordinates of which only the distance is needed.

    Later ops cannot select them. To not read a column at all, use ``source: {drop: ...}``. Adds no columns.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"width": [2.0, 3.0], "height": [4.0, 5.0]})
        >>> ops = [{"arithmetic": {"product": ["width", "height"], "as": "area"}}, {"drop": ["width", "height"]}]
        >>> program = FeatureProgram(ops, view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
           area
        0   8.0
        1  15.0
    """

    def apply(self, builder: ProgramBuilder) -> None:
        """Remove the columns, and the matrix columns that represent them."""
        builder.drop(self.columns, "drop")
