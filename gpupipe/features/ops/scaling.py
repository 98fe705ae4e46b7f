"""Base class of the ops that shift and scale numbers."""

from __future__ import annotations

from gpupipe.features.ops.base import InPlaceOp, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import NumericExpr
from gpupipe.names import NamePatterns

SMALLEST_NORMAL = 2.0**-126  # of float32


class Scaling(InPlaceOp[NumericExpr]):
    """Base class of the ops whose result is ``(x - center) * factor``.

    Columns that have a scale, such as hashed texts, are scaled if they are named, but not as part of a ``@kind``.
    """

    def select(self, builder: ProgramBuilder) -> list[NumericExpr]:
        schema, columns = builder.statistics.table.schema, builder.select_numbers(self.columns, self.title())
        named = NamePatterns([item for item in self.named_inputs() if not item.startswith(("@", "!"))])
        return [c for c in columns if c.name not in schema or not schema[c.name].has_scale or named.matches(c.name)]

    def emit(self, column: NumericExpr, state: State, builder: ProgramBuilder) -> None:
        builder.replace(column.then("CENTER", state["center"], state["factor"]), self.title())


def reciprocal(spread: float) -> float:
    """Return 1 / spread, or 1 if float32 cannot represent the spread, so that a constant column becomes 0, not NaN."""
    return 1.0 / spread if spread > SMALLEST_NORMAL else 1.0
