"""Columns that others were made of, and that are no features themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.features.ops.base import OPS, SelectingOp

if TYPE_CHECKING:
    from gpupipe.features.program.builder import ProgramBuilder


@OPS.register("drop")
class Drop(SelectingOp):
    """Leave columns out of the matrix: coordinates of which only the distance is wanted.

    Later ops cannot select them. ``source: {drop: ...}`` does not even read a column.
    """

    def apply(self, builder: ProgramBuilder) -> None:
        """Forget the columns, and what stands for them in the matrix."""
        builder.drop(self.columns, "drop")
