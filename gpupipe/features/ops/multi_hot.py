"""Indicators of the items of lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, PrivateAttr

from gpupipe.backends.weighted_quantiles import WEIGHT_RESOLUTION
from gpupipe.features.history.derivation import DerivedColumn, TextCorpus, arrays_of_part, join_arrays
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.categorify import MinFrequency
from gpupipe.features.ops.items_op import ListFeature, ListOp, encode_lists, require_kind
from gpupipe.typing import Array, HostArray

if TYPE_CHECKING:
    from gpupipe.features.history.tables import DerivationSources
    from gpupipe.table.list_columns import Lists


@OPS.register("multi_hot")
class MultiHot(ListOp):
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
    min_frequency: MinFrequency = Field(
        None, description="Minimum number of training rows with an item that has a column, or their share if below 1."
    )
    levels: list[float | str] | None = Field(
        None, min_length=1, description="Items with a column, instead of the frequent ones of the training rows."
    )

    _learned: dict[str, list[Any]] = PrivateAttr(default_factory=dict)

    def names(self, column: str, kind: str) -> list[str]:
        """Return ``tags=blue``, ``tags=red``, …"""
        from gpupipe.table.level_text import canonical_text

        for level in self.levels or ():
            require_kind(self, f"the level {level!r}", column, kind, "text" if isinstance(level, str) else "number")
        levels = self.levels or self._learned[column]
        return [f"{column}={level if isinstance(level, str) else canonical_text(float(level))}" for level in levels]

    def features(self, lists: Lists, column: str) -> Iterator[ListFeature]:
        """Yield the indicator of each level."""
        yield from map(ListFeature, self._indicators(lists, column))

    def columns_of(self, name: str, sources: DerivationSources) -> Iterator[DerivedColumn]:
        """Yield the indicators; before the levels are learned, the positions of the lists."""
        if self.levels is not None or name in self._learned:
            yield from super().columns_of(name, sources)
            return
        lists = encode_lists(name, sources)[1]
        positions = sources.backend.xp.arange(len(lists), dtype="int32")
        corpus = TextCorpus(name, (), lists.with_null())
        yield DerivedColumn(f"{self.prefix}{name}_lists", positions, (name,), texts=corpus)

    def learn(self, lists: Lists, column: str, weights: Array) -> tuple[MultiHot, list[str], HostArray]:
        """Return the op with the levels of a column, the names of its indicators, and their values.

        `weights`, shape (len(lists),), are 0 for rows that are not training rows. The values have the shape
        (n_levels, len(lists)).
        """
        import numpy as np

        codes, values = lists.codes
        weights = np.asarray(weights, np.float64)
        total, resolution = weights.sum(), WEIGHT_RESOLUTION * weights.sum()
        n = max(len(values), 1)
        pairs = np.sort(lists.rows[lists.is_known] * n + codes)  # faster than the hash table of np.unique
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]]  # an item counts once in each row
        counts = np.bincount(pairs % n, weights[pairs // n], len(values))
        least = self.min_frequency or 0
        kept = np.flatnonzero((counts > 0) & (counts >= (least * total if 0 < least < 1 else least) - resolution))
        if self.max_levels is not None and len(kept) > self.max_levels:
            order = np.argsort(-np.round(counts[kept] / resolution), kind="stable")
            kept = np.sort(kept[order[: self.max_levels]])
        op = self._with({**self._learned, column: [values[code] for code in kept.tolist()]})
        names = [f"{self.prefix}{name}" for name in op.names(column, "number" if lists.levels is None else "text")]
        return op, names, op._indicators(lists, column)

    def _indicators(self, lists: Lists, column: str) -> HostArray:
        """Return the indicators of a column, float32, shape (n_levels, len(lists))."""
        import numpy as np

        levels = self.levels or self._learned[column]
        found = np.zeros((len(levels), len(lists)), np.float32)
        slots = {level: i for i, level in enumerate(levels)}
        codes, values = lists.codes
        of_code = np.array([slots.get(value, -1) for value in values], np.int64)
        of_item = of_code[codes]
        is_kept = of_item >= 0
        found[of_item[is_kept], lists.rows[lists.is_known][is_kept]] = 1.0
        return found

    def arrays(self) -> dict[str, HostArray]:
        """Return the levels of each column as the bytes of a JSON array, for the model."""
        import numpy as np

        levels = [] if self.levels else [json.dumps(self._learned[name]).encode() for name in self.listed()]
        return join_arrays({"levels": np.frombuffer(each, np.uint8)} for each in levels)

    def with_arrays(self, arrays: Mapping[str, HostArray]) -> MultiHot:
        """Return the op with the result of `arrays`; raise ValueError or KeyError if it is malformed."""
        learned = dict[str, list[Any]]()
        for i, name in enumerate(() if self.levels else self.listed()):
            levels = json.loads(arrays_of_part(arrays, i)["levels"].tobytes())
            if not isinstance(levels, list) or not all(isinstance(level, str | float) for level in levels):
                raise ValueError("malformed levels")
            learned[name] = levels
        return self._with(learned)

    def _with(self, learned: dict[str, list[Any]]) -> MultiHot:
        found = self.model_copy()
        found._learned = learned
        return found
