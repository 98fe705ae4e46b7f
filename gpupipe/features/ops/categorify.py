"""Integer ids of levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from gpupipe.backends.weighted_quantiles import WEIGHT_RESOLUTION
from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.program.builder import ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr
from gpupipe.table.schema import FIRST_LEVEL, NULL, RARE, UNSEEN

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


MinFrequency = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0.0, lt=1.0)] | None


@OPS.register("categorify")
class Categorify(Op[CategoryExpr]):
    """Replace each level by an integer id: 0 null, 1 unseen, 2 rare, and from 3 the levels of the training rows in
    order.

    Ids are the same on every device, at fit and when the model serves. Rare levels are those that exceed
    `max_categories` or have fewer rows than `min_frequency`. Row weights (``source.weight``) count.

    Output: one column of the same name for each selected column, float32 holding integers. Models with native
    categories treat it as categorical, neural networks embed it.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"plan": ["basic", "plus", None, "basic"]})
        >>> program = FeatureProgram([{"categorify": "plan"}]).set_output(transform="pandas")
        >>> program.fit(frame).transform(pd.DataFrame({"plan": ["basic", "plus", None, "pro"]}))
           plan
        0   3.0
        1   4.0
        2   0.0
        3   1.0
    """

    max_categories: int | None = Field(
        None, ge=1, description="Maximum number of levels with their own id, the most frequent ones; null: no limit."
    )
    min_frequency: MinFrequency = Field(
        None, description="Minimum number of training rows of a level with its own id, or their share if below 1."
    )

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        return builder.select_categories(self.columns, "categorify")

    def fit(self, columns: list[CategoryExpr], statistics: Statistics) -> list[State]:
        states: list[State] = []
        for column, count in zip(columns, statistics.weight_sums(columns), strict=True):
            counts = count.tolist()
            kept = select_frequent(column, counts, self.max_categories, self.min_frequency)
            place = {code: FIRST_LEVEL + i for i, code in enumerate(kept)}
            # A level (or combination) that is not in the training rows is unseen, not rare.
            others = range(FIRST_LEVEL, column.n_codes)
            ids = [NULL, UNSEEN, RARE, *(place.get(c, RARE if counts[c] else UNSEEN) for c in others)]
            states.append({"levels": [column.labels[c - FIRST_LEVEL] for c in kept], "ids": ids})
        return states

    def summary(self, state: State) -> State:
        """Return the levels in the order of their ids."""
        return {"levels": state["levels"]}

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        ids = builder.look_up(column, state["ids"], column.name)
        builder.put(ids, "categorify", n_codes=FIRST_LEVEL + len(state["levels"]))


def select_frequent(
    column: CategoryExpr, counts: Sequence[float], max_categories: int | None, min_frequency: float | None
) -> list[int]:
    """Return the codes of the frequent levels, in order.

    `counts` are the training rows of each code, or the sums of their weights. The `max_categories` most frequent levels
    are kept; ties go to the lower code, and sums of weights that differ by a rounding error are tied. A level needs at
    least `min_frequency` rows, or that share of them if it is below 1.
    """
    total = sum(counts)
    resolution = WEIGHT_RESOLUTION * total
    least = (min_frequency or 0) * (total if 0 < (min_frequency or 0) < 1 else 1) - resolution
    codes = [c for c in range(FIRST_LEVEL, column.n_codes) if counts[c] > 0 and counts[c] >= least]
    if max_categories is not None and len(codes) > max_categories:
        codes = sorted(codes, key=lambda c: (-round(counts[c] / resolution), c))[:max_categories]
    return sorted(codes)
