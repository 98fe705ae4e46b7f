"""One-hot encoding of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.ops.categorify import MinFrequency, select_frequent
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr, NumericExpr, Producer
from gpupipe.table.schema import FIRST_LEVEL, NULL, RARE

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics

RARE_LABEL, NULL_LABEL = "(rare)", "(null)"


@OPS.register("one_hot")
class OneHot(Op[CategoryExpr]):
    """Add an indicator column for each level: 1 in its rows, 0 elsewhere.

    Levels that exceed `max_categories` or have fewer rows than `min_frequency` share the column ``plan=(rare)``. Nulls
    have the column ``plan=(null)`` if the training rows contain any. A level that is not in the training rows is 0 in
    all columns, as is the first one with ``drop: first``. Row weights (``source.weight``) count.

    Output: ``plan=basic``, ``plan=plus``, ...; float32, never null.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"plan": ["basic", "plus", None]})
        >>> program = FeatureProgram([{"one_hot": "plan"}]).set_output(transform="pandas")
        >>> program.fit_transform(frame)
           plan=basic  plan=plus  plan=(null)
        0         1.0        0.0          0.0
        1         0.0        1.0          0.0
        2         0.0        0.0          1.0
    """

    max_categories: int | None = Field(
        64, ge=1, description="Maximum number of levels with their own column, the most frequent ones; null: no limit."
    )
    min_frequency: MinFrequency = Field(
        None, description="Minimum number of training rows of a level with its own column, or their share if below 1."
    )
    drop: Literal["first"] | None = Field(
        None, description="first: no column for the first level, for linear models without a penalty."
    )

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        return builder.select_categories(self.columns, "one_hot")

    def fit(self, columns: list[CategoryExpr], statistics: Statistics) -> list[State]:
        states: list[State] = []
        for column, count in zip(columns, statistics.weight_sums(columns), strict=True):
            counts = count.tolist()
            kept = select_frequent(counts, self.max_categories, self.min_frequency)
            others = set(range(FIRST_LEVEL, column.n_codes)).difference(kept)
            rare = sorted(code for code in others if counts[code])
            levels = [column.labels[code - FIRST_LEVEL] for code in kept]
            states.append({"levels": levels, "codes": kept, "rare": rare, "null": counts[NULL] > 0})
        return states

    def summary(self, state: State) -> State:
        """Return the levels with their own column, and whether rare levels and nulls have a column."""
        return {"levels": state["levels"], "rare": bool(state["rare"]), "null": state["null"]}

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        columns = list(zip(state["codes"], state["levels"], strict=True))
        for code, level in columns[1 if self.drop else 0 :]:
            label = repr(level) if level in (RARE_LABEL, NULL_LABEL) else level
            builder.put(indicator(column, [code], label, builder), "one_hot")
        if state["rare"]:
            builder.put(indicator(column, [RARE, *state["rare"]], RARE_LABEL, builder), "one_hot")
        if state["null"]:
            builder.put(indicator(column, [NULL], NULL_LABEL, builder), "one_hot")


def indicator(column: CategoryExpr, codes: list[int], label: str, builder: ProgramBuilder) -> NumericExpr:
    """Return the column that is 1 where `column` has one of `codes`, else 0."""
    name = f"{column.name}={label}"
    step = column.index[0]
    if len(codes) == 1 and len(column.index) == 1 and step.op == "INDEX" and column.remap is None:
        return NumericExpr(name, column.inputs, Producer("EQUAL", step.source, arg=codes[0]), may_be_null=False)
    chosen = set(codes)
    return builder.look_up(column, [float(c in chosen) for c in range(column.n_codes)], name)
