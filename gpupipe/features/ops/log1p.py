"""The logarithm of one more than a number."""

from __future__ import annotations

from gpupipe.features.ops.base import OPS, InPlaceOp, State
from gpupipe.features.program.builder import Builder
from gpupipe.features.program.expressions import Numbers, Virtual


@OPS.register("log1p")
class Log1p(InPlaceOp):
    """Replace x by ``log(1 + x)``, for counts and amounts; at -1 and below it is null."""

    def select(self, builder: Builder) -> list[Virtual]:
        return list(builder.numbers(self.columns, "log1p"))

    def lower(self, column: Virtual, state: State, builder: Builder) -> None:
        assert isinstance(column, Numbers)
        builder.replace(column.then("LOG1P"), "log1p")
