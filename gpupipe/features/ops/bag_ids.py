"""Ids of the items of lists, for embedding bags of networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from gpupipe.errors import ConfigError, LimitError
from gpupipe.features.ops.base import OPS
from gpupipe.features.ops.items_op import ListOp
from gpupipe.features.ops.levels_op import ListLevelsOp
from gpupipe.features.ops.list_hash import item_buckets
from gpupipe.table.schema import FIRST_LEVEL, NULL, UNSEEN
from gpupipe.tensors.bags import IdBags
from gpupipe.typing import Array, HostArray

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend
    from gpupipe.features.history.derivation import Derivation
    from gpupipe.features.program.builder import ProgramBuilder
    from gpupipe.features.program.fitted import FittedFeatures
    from gpupipe.table.list_columns import Lists

MOST_ITEMS = 2**31 - 1  # largest offset


@OPS.register("bag_ids")
class BagIds(ListLevelsOp):
    """Number the items of lists for the embedding bags of a network.

    Ids are 0 for a null item, 1 for an item that is not a level, and from 3 the levels: the items of the training rows
    in order, or the given ones. Id 2, rare in other columns, is not used. ``buckets: 64`` hashes the items that are not
    levels to the next 64 ids. Row weights (``source.weight``) count.

    Output: no column of the matrix. `Pipeline.tensors` has the ids of the items of all rows, and where each row begins,
    in ``batch.bags["tags"]``; `FeatureProgram.bags` has those of new rows. The models of a run do not read them. A null
    or empty list is an empty bag. Lists are computed on the CPU, and the ids are copied to the GPU.

    Examples:
        >>> import pandas as pd
        >>> from gpupipe import FeatureProgram
        >>> frame = pd.DataFrame({"tags": [["red", "blue"], ["red", None], [], None], "x": [1.0, 2.0, 3.0, 4.0]})
        >>> program = FeatureProgram([{"bag_ids": "tags"}], view="codes").set_output(transform="pandas")
        >>> program.fit_transform(frame)
             x
        0  1.0
        1  2.0
        2  3.0
        3  4.0
        >>> ids, offsets = program.bags(frame)["tags"]
        >>> ids.tolist(), offsets.tolist()
        ([4, 3, 4, 0], [0, 2, 4, 4, 4])
    """

    HAS_SCALE: ClassVar[bool] = True

    max_levels: int | None = Field(
        None, ge=1, description="Maximum number of items with their own id, the most frequent ones; null: no limit."
    )
    buckets: int | None = Field(
        None, ge=1, le=2**20, description="Number of further ids, to which all other items are hashed."
    )

    def names(self, column: str, kind: str) -> list[str]:
        """Return no name."""
        self.require_levels(column, kind)
        return []

    def matrix(self, lists: Lists, column: str) -> HostArray:
        """Return a matrix without columns."""
        import numpy as np

        return np.empty((0, len(lists)), np.float32)

    def apply(self, builder: ProgramBuilder) -> None:
        """Mark the list columns as used."""
        super().apply(builder)
        builder.note(f"bag_ids of {', '.join(self.listed())}: the models of a run do not read ids of lists")

    def n_ids(self, column: str) -> int:
        """Return the number of ids of a column: an id is less than that."""
        return FIRST_LEVEL + len(self.known_levels(column)) + (self.buckets or 0)

    def bags(self, lists: Lists, column: str) -> IdBags[HostArray]:
        """Return the ids of lists; raise LimitError if they have 2**31 items or more."""
        import numpy as np

        if lists.offsets[-1] > MOST_ITEMS:
            what = f"bag_ids: {column!r} has {int(lists.offsets[-1]):,} items; the limit is {MOST_ITEMS:,}"
            raise LimitError(what, fix="use fewer rows")
        codes, values = lists.codes
        levels = self.known_levels(column)
        other = [UNSEEN] * len(values)
        if self.buckets:
            other = (FIRST_LEVEL + len(levels) + item_buckets(values, self.buckets)).tolist()
        places = {level: i for i, level in enumerate(levels, FIRST_LEVEL)}
        of_code = np.array([places.get(value, code) for value, code in zip(values, other, strict=True)], np.int32)
        ids = np.full(len(lists.items), NULL, np.int32)
        ids[lists.is_known] = of_code[codes]
        return IdBags(ids, lists.offsets.astype(np.int32))


def bag_columns(derivation: Derivation | None) -> dict[str, tuple[BagIds, str]]:
    """Return the op and list column of each entry of `batch.bags`; raise ConfigError if two have the same name."""
    found = dict[str, tuple[BagIds, str]]()
    for op in () if derivation is None else derivation.ops:
        own = {f"{op.prefix}{name}": (op, name) for name in op.listed()} if isinstance(op, BagIds) else {}
        if twice := sorted(found.keys() & own.keys()):
            raise ConfigError(f"bag_ids: two ops make the bag {twice[0]!r}", fix="set another prefix", names=twice)
        found |= own
    return found


def bags_of(
    derivation: Derivation | None, lists: Mapping[str, Any], backend: Backend, mask: Any = None
) -> dict[str, IdBags[Array]]:
    """Return the bags of the list columns of a table, on the device of `backend`.

    `lists` are its `texts`; `mask` (bool, shape (n_rows,)) selects rows, by default all.
    """
    from gpupipe.arrow_numpy import number_array
    from gpupipe.backends.cpu.memory import copy_of
    from gpupipe.table.list_columns import Lists

    found: dict[str, IdBags[Any]] = {}
    for bag, (op, name) in bag_columns(derivation).items():
        values = lists[name] if mask is None else lists[name].filter(number_array(mask))
        bags = op.bags(Lists.of(values), name)
        found[bag] = bags.map(lambda array: backend.to_device(copy_of(array)))  # aligned, as JAX needs
    return found


def without_bags(features: FittedFeatures) -> FittedFeatures:
    """Return the features of a model, which do not read the lists of `BagIds`."""
    derivation = features.derivation
    read = {name for _, name in bag_columns(derivation).values()}
    if derivation is None or not read:
        return features
    kept = tuple(op for op in derivation.ops if not isinstance(op, BagIds))
    gone = read.difference(*(op.listed() for op in kept if isinstance(op, ListOp)))
    inputs = tuple(name for name in derivation.inputs if name not in gone)
    own = replace(derivation, ops=kept, schema=derivation.schema.without(gone), inputs=inputs)
    is_used = any(column.derived for column in features.schema)
    training = None if features.training is None else features.training.without(gone)
    return replace(features, derivation=own if is_used else None, training=training)
