"""Base class of the ops that learn the items of lists from the training rows."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, PrivateAttr

from gpupipe.backends.weighted_quantiles import WEIGHT_RESOLUTION
from gpupipe.features.history.derivation import DerivedColumn, TextCorpus, arrays_of_part, join_arrays
from gpupipe.features.ops.categorify import MinFrequency
from gpupipe.features.ops.items_op import ListFeature, ListOp, encode_lists, require_kind
from gpupipe.typing import Array, HostArray

if TYPE_CHECKING:
    from gpupipe.features.history.tables import DerivationSources
    from gpupipe.table.list_columns import Lists


class ListLevelsOp(ListOp):
    """An op on the levels of lists: given ones, or the frequent items of the training rows."""

    max_levels: int | None
    min_frequency: MinFrequency = Field(
        None, description="Minimum number of training rows with an item that is a level, or their share if below 1."
    )
    levels: list[float | str] | None = Field(
        None, min_length=1, description="Levels, instead of the frequent items of the training rows."
    )

    _learned: dict[str, list[Any]] = PrivateAttr(default_factory=dict)

    @abstractmethod
    def matrix(self, lists: Lists, column: str) -> HostArray:
        """Return the output columns of a column, float32, shape (n_columns, len(lists))."""

    def features(self, lists: Lists, column: str) -> Iterator[ListFeature]:
        """Yield the rows of the matrix."""
        yield from map(ListFeature, self.matrix(lists, column))

    def known_levels(self, column: str) -> Sequence[float | str]:
        """Return the levels of a column, given or learned."""
        return self.levels or self._learned[column]

    def require_levels(self, column: str, kind: str) -> None:
        """Raise ConfigError if a given level is not of the kind of the items of a column."""
        for level in self.levels or ():
            require_kind(self, f"the level {level!r}", column, kind, "text" if isinstance(level, str) else "number")

    def columns_of(self, name: str, sources: DerivationSources) -> Iterator[DerivedColumn]:
        """Yield the output columns; before the levels are learned, the positions of the lists."""
        if self.levels is not None or name in self._learned:
            yield from super().columns_of(name, sources)
            return
        lists = encode_lists(name, sources)[1]
        positions = sources.backend.xp.arange(len(lists), dtype="int32")
        corpus = TextCorpus(name, (), lists.with_null())
        yield DerivedColumn(f"{self.prefix}{name}_{self.title()}", positions, (name,), texts=corpus)

    def learn(self, lists: Lists, column: str, weights: Array) -> tuple[Self, list[str], HostArray]:
        """Return the op with the levels of a column, the names of its output columns, and their values.

        `weights`, shape (len(lists),), are 0 for rows that are not training rows. The values have the shape
        (n_columns, len(lists)).
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
        return op, names, op.matrix(lists, column)

    def arrays(self) -> dict[str, HostArray]:
        """Return the levels of each column as the bytes of a JSON array, for the model."""
        import numpy as np

        levels = [] if self.levels else [json.dumps(self._learned[name]).encode() for name in self.listed()]
        return join_arrays({"levels": np.frombuffer(each, np.uint8)} for each in levels)

    def with_arrays(self, arrays: Mapping[str, HostArray]) -> Self:
        """Return the op with the result of `arrays`; raise ValueError or KeyError if it is malformed."""
        learned = dict[str, list[Any]]()
        for i, name in enumerate(() if self.levels else self.listed()):
            levels = json.loads(arrays_of_part(arrays, i)["levels"].tobytes())
            if not isinstance(levels, list) or not all(isinstance(level, str | float) for level in levels):
                raise ValueError("malformed levels")
            learned[name] = levels
        return self._with(learned)

    def _with(self, learned: dict[str, list[Any]]) -> Self:
        found = self.model_copy()
        found._learned = learned
        return found
