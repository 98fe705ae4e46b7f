"""Integer ids of levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from gpupipe.backends.weighted_quantiles import WEIGHT_RESOLUTION
from gpupipe.features.ops.base import OPS, Op, State
from gpupipe.features.program.builder import NAN, ProgramBuilder
from gpupipe.features.program.expressions import CategoryExpr
from gpupipe.settings import Label
from gpupipe.table.schema import FIRST_LEVEL, NULL, RARE, UNSEEN, Schema

if TYPE_CHECKING:
    from gpupipe.features.statistics.training import Statistics


MinFrequency = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0.0, lt=1.0)] | None


@OPS.register("categorify")
class Categorify(Op[CategoryExpr]):
    """Replace each level by an integer id: 0 null, 1 unseen, 2 rare, and from 3 the levels of the training rows in
    order.

    Ids are the same on every device, at fit and when the model serves. Rare levels are those that exceed
    `max_categories` or have fewer rows than `min_frequency`. Row weights (``source.weight``) count.

    - ``order: frequency`` numbers the levels from the most frequent one; ties are in order of the text.
    - ``vocabulary: shared`` gives a level the same id in all selected columns; their rows are counted together.
    - ``levels: [low, mid, high]`` are the levels and their order; training rows need not have them. With
      ``ordered: true``, the column is a number: 0, 1, 2, and null for nulls and other levels.
    - ``buckets: 64`` hashes all other levels, rare and unseen ones, to the next 64 ids.

    With given or shared levels, or with buckets, no level is rare: those without an id are unseen.

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

    levels: list[Label] | None = Field(
        None, min_length=1, description="Levels in the order of their ids; default: those of the training rows."
    )
    ordered: bool = Field(False, description="Make a number from 0 of `levels` instead of ids of categories.")
    order: Literal["text", "frequency"] = Field("text", description="Order of the ids of learned levels.")
    vocabulary: Literal["separate", "shared"] = Field(
        "separate", description="Levels of each column, or shared: the same id of a level in all of them."
    )
    buckets: int | None = Field(
        None, ge=1, le=2**20, description="Number of further ids, to which all other levels are hashed."
    )

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        learned = {"max_categories", "min_frequency", "order", "vocabulary"} & self.model_fields_set
        if self.levels is not None and learned:
            raise ValueError(f"levels are given: remove {', '.join(sorted(learned))}")
        texts = _texts(self.levels or ())
        if "" in texts or len(set(texts)) < len(texts):
            raise ValueError(f"levels: expected different ones; got {', '.join(map(repr, texts))}")
        if self.ordered and (self.levels is None or self.buckets):
            raise ValueError("ordered: true requires levels, in order, and no buckets")
        return self

    def select(self, builder: ProgramBuilder) -> list[CategoryExpr]:
        return builder.select_categories(self.columns, "categorify")

    def fit(self, columns: list[CategoryExpr], statistics: Statistics) -> list[State]:
        counts = [found.tolist() for found in statistics.weight_sums(columns)]
        is_known = self.levels is not None or self.vocabulary == "shared"
        levels = self._shared_levels(columns, counts) if is_known else ()
        states: list[State] = []
        for column, own in zip(columns, counts, strict=True):
            kept = levels or self._learned_levels(column.labels, own)
            form = _form(statistics.table.schema, column)
            place = {form(level): FIRST_LEVEL + i for i, level in enumerate(kept)}
            # A level (or combination) that is not in the training rows is unseen, not rare.
            others = [UNSEEN if is_known or n == 0 else RARE for n in own[FIRST_LEVEL:]]
            known = [place.get(form(label), code) for label, code in zip(column.labels, others, strict=True)]
            has_all = not self.buckets and (not is_known or set(place) <= set(map(form, column.labels)))
            states.append({"levels": list(kept), "ids": [NULL, UNSEEN, RARE, *known] if has_all else None})
        return states

    def _shared_levels(self, columns: list[CategoryExpr], counts: list[list[float]]) -> list[str]:
        """Return the given levels, or those of all columns together."""
        if self.levels is not None:
            return _texts(self.levels)
        sums = Counter[str]()
        for column, own in zip(columns, counts, strict=True):
            sums.update(dict(zip(column.labels, own[FIRST_LEVEL:], strict=True)))
        from gpupipe.table.string_columns import sort_levels

        labels = sort_levels(sums)
        return self._learned_levels(labels, [0.0] * FIRST_LEVEL + [sums[label] for label in labels])

    def _learned_levels(self, labels: Sequence[str], counts: list[float]) -> list[str]:
        kept = select_frequent(counts, self.max_categories, self.min_frequency)
        if self.order == "frequency":
            kept = sort_by_frequency(kept, counts)
        return [labels[code - FIRST_LEVEL] for code in kept]

    def summary(self, state: State) -> State:
        """Return the levels in the order of their ids."""
        return {"levels": state["levels"]}

    def emit(self, column: CategoryExpr, state: State, builder: ProgramBuilder) -> None:
        ids, n_buckets = state["ids"], self.buckets or 0
        if ids is None:
            builder.source_of(column, "categorify with given or shared levels, or buckets", "apply it to input columns")
            column = builder.hashed(column, n_buckets, state["levels"])
            ids = list(range(column.n_codes))
        if self.ordered:
            ids = [float(code - FIRST_LEVEL) if code >= FIRST_LEVEL else NAN for code in ids]
        n_codes = 0 if self.ordered else FIRST_LEVEL + len(state["levels"]) + n_buckets
        builder.put(builder.look_up(column, ids, column.name), "categorify", n_codes=n_codes)


def _texts(levels: Iterable[Label]) -> list[str]:
    """Return given levels as texts, numbers and booleans as tables write them."""
    from gpupipe.table.level_text import canonical_text

    return [level if isinstance(level, str) else canonical_text(level) or "" for level in levels]


def _form(schema: Schema, column: CategoryExpr) -> Callable[[str], str]:
    """Return the function to the normal form of the levels of an input column."""
    from gpupipe.table.level_text import normal_form

    own = schema[column.index[0].source] if len(column.index) == 1 and column.index[0].op == "INDEX" else None
    return normal_form(own.dtype) if own is not None and own.has_normal_form else str


def sort_by_frequency(codes: Sequence[int], counts: Sequence[float]) -> list[int]:
    """Return codes from the most to the least frequent one; sums that differ by a rounding error are tied."""
    resolution = WEIGHT_RESOLUTION * sum(counts)
    return sorted(codes, key=lambda c: (-round(counts[c] / resolution), c))


def select_frequent(counts: Sequence[float], max_categories: int | None, min_frequency: float | None) -> list[int]:
    """Return the codes of the frequent levels, in order.

    `counts` are the training rows of each code, or the sums of their weights. The `max_categories` most frequent levels
    are kept; ties go to the lower code, and sums of weights that differ by a rounding error are tied. A level needs at
    least `min_frequency` rows, or that share of them if it is below 1.
    """
    total = sum(counts)
    resolution = WEIGHT_RESOLUTION * total
    least = (min_frequency or 0) * (total if 0 < (min_frequency or 0) < 1 else 1) - resolution
    codes = [c for c in range(FIRST_LEVEL, len(counts)) if counts[c] > 0 and counts[c] >= least]
    if max_categories is not None and len(codes) > max_categories:
        codes = sort_by_frequency(codes, counts)[:max_categories]
    return sorted(codes)
