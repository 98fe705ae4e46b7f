"""A column of 0 and 1 for each level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from gpupipe.features.base import OPS, Op, State
from gpupipe.features.builder import Builder
from gpupipe.features.columns import Codes, Numbers, Start, Virtual
from gpupipe.features.vocabulary import frequent

if TYPE_CHECKING:
    from gpupipe.features.statistics import Statistics

NULL, UNSEEN, RARE = 0, 1, 2


@OPS.register("one_hot")
class OneHot(Op):
    """Make a column of 0 and 1 for each level: ``Contract=Two year``.

    Levels beyond `max_categories` or below `min_frequency` share the column ``Contract=(rare)``; nulls have
    ``Contract=(null)`` where the training rows hold any; a level that was never seen is 0 everywhere.
    """

    max_categories: int | None = Field(64, ge=1, description="Keep the most frequent levels; null keeps all.")
    min_frequency: int | None = Field(None, ge=1, description="Keep levels with at least so many training rows.")

    def select(self, builder: Builder) -> list[Virtual]:
        return list(builder.codes(self.columns, "one_hot"))

    def fit(self, columns: list[Virtual], statistics: Statistics) -> list[State]:
        states: list[State] = []
        for column, count in zip(columns, statistics.counts(columns), strict=True):  # type: ignore[arg-type]
            assert isinstance(column, Codes)
            counts = count.tolist()
            kept = frequent(column, counts, self.max_categories, self.min_frequency)
            is_rare = sum(counts[3:]) > sum(counts[c] for c in kept)
            states.append({"levels": [column.labels[c - 3] for c in kept], "null": counts[NULL] > 0, "rare": is_rare})
        return states

    def lower(self, column: Virtual, state: State, builder: Builder) -> None:
        assert isinstance(column, Codes)
        kept = [3 + column.labels.index(level) for level in state["levels"]]
        for code in kept:
            builder.put(indicator(column, [code], column.labels[code - 3], builder), "one_hot")
        if state["rare"]:
            rare = [c for c in range(RARE, column.n_codes) if c not in kept]
            builder.put(indicator(column, rare, "(rare)", builder), "one_hot")
        if state["null"]:
            builder.put(indicator(column, [NULL], "(null)", builder), "one_hot")


def indicator(column: Codes, codes: list[int], label: str, builder: Builder) -> Numbers:
    """Return the column that is 1 where `column` has one of `codes`."""
    name = f"{column.name}={label}"
    step = column.index[0]
    if len(codes) == 1 and len(column.index) == 1 and step.op == "INDEX" and column.remap is None:
        return Numbers(name, column.inputs, Start("EQUAL", step.source, arg=codes[0]), may_be_null=False)
    chosen = set(codes)
    return builder.take(column, [float(c in chosen) for c in range(column.n_codes)], name)
