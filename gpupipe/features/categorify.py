"""Integer ids for levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from gpupipe.features.base import OPS, Op, State
from gpupipe.features.builder import Builder
from gpupipe.features.columns import Codes, Virtual
from gpupipe.features.vocabulary import frequent

if TYPE_CHECKING:
    from gpupipe.features.statistics import Statistics


@OPS.register("categorify")
class Categorify(Op):
    """Give each level an integer id: 0 null, 1 unseen, 2 rare, from 3 on the levels in their order.

    The ids are the same at fit and at serve, on every device. Models with native categories take them as such.
    """

    max_categories: int | None = Field(None, ge=1, description="Keep the most frequent levels; the rest are rare.")
    min_frequency: int | None = Field(None, ge=1, description="Levels with fewer training rows are rare.")

    def select(self, builder: Builder) -> list[Virtual]:
        return list(builder.codes(self.columns, "categorify"))

    def fit(self, columns: list[Virtual], statistics: Statistics) -> list[State]:
        states: list[State] = []
        for column, count in zip(columns, statistics.counts(columns), strict=True):  # type: ignore[arg-type]
            assert isinstance(column, Codes)
            kept = frequent(column, count.tolist(), self.max_categories, self.min_frequency)
            states.append({"levels": [column.labels[c - 3] for c in kept]})
        return states

    def lower(self, column: Virtual, state: State, builder: Builder) -> None:
        assert isinstance(column, Codes)
        place = {level: 3.0 + i for i, level in enumerate(state["levels"])}
        ids = [0.0, 1.0, 2.0, *(place.get(label, 2.0) for label in column.labels)]
        builder.put(builder.take(column, ids, column.name), "categorify", n_codes=3 + len(place))
