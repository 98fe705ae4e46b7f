"""Base class of the ops on lists: column selection, and features of offsets and items."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import DerivedColumn, DerivedOp
from gpupipe.features.ops.content_op import ContentOp
from gpupipe.features.program.selection import resolve
from gpupipe.names import is_glob
from gpupipe.table.schema import FIRST_LEVEL, NULL, Column
from gpupipe.typing import HostArray

if TYPE_CHECKING:
    from gpupipe.features.history.tables import DerivationSources, HistoryRows
    from gpupipe.features.ops.base import FeatureOp
    from gpupipe.features.program.builder import ProgramBuilder
    from gpupipe.table.list_columns import Lists


@dataclass(frozen=True, eq=False)
class ListFeature:
    """A column that is derived from lists.

    `values` are float32, NaN where null; or with `levels` (sorted texts) int64 positions in them, -1 where null.
    """

    values: HostArray
    levels: tuple[str, ...] | None = None


class ListOp(ContentOp):
    """An op on the lists of list columns."""

    READS: ClassVar[str] = "lists"
    HAS_SCALE: ClassVar[bool]  # whether models of scaled numbers take the columns as they are

    @abstractmethod
    def names(self, column: str, kind: str) -> list[str]:
        """Return the names of the output columns of a column with items of a `kind`, ``number`` or ``text``.

        Raise ConfigError if the op does not apply to such items.
        """

    @abstractmethod
    def features(self, lists: Lists, column: str) -> Iterator[ListFeature]:
        """Yield the output columns of a column, in the order of `names`."""

    def measured(self, rows: HistoryRows) -> ListOp:
        """Return the op with what its columns need to know about all rows; by default, nothing."""
        return self

    def resolve(self, rows: HistoryRows) -> ListOp:
        """Return the op with its selection resolved to names, and with what it has measured."""
        return super().resolve(rows).measured(rows)

    def selected(self, rows: HistoryRows) -> list[str]:
        """Return the columns that the selection matches; raise ConfigError if one of them has no lists."""
        listed = self.listed()
        kinds = {c.name: c.kind for c in rows.table.schema if not c.derived or c.kind == "list"}
        names = resolve(listed, kinds)
        for name in names:
            if kinds[name] != "list":
                raise ConfigError(
                    f"{self.title()} takes columns of lists; {name!r} is {kinds[name]}",
                    fix=f"select other columns; if its texts are JSON arrays, declare schema: {{{name}: list}}",
                    names=[name],
                )
        return names

    def apply(self, builder: ProgramBuilder) -> None:
        """Mark the list columns as used: their derived columns are already in the table."""
        kinds = {name: column.kind for name, column in builder.columns.items()}
        builder.consumed |= set(resolve(self.listed(), kinds, lambda *_: None))

    def derive(self, sources: DerivationSources) -> Iterator[DerivedColumn]:
        """Yield the output columns of each list column."""
        rows, op = sources.main, self.measured(sources.main)
        if sources.backend.name == "gpu":
            sources.backend.note(f"{self.title()}: features of lists are computed on the CPU")
        for name in self.selected(rows):
            yield from op.columns_of(name, sources)

    def columns_of(self, name: str, sources: DerivationSources) -> Iterator[DerivedColumn]:
        """Yield the output columns of the list column `name`."""
        column, lists = encode_lists(name, sources)
        names = self.names(name, column.item_kind)
        self.require_room(len(names), sources)
        for own, feature in zip(names, self.features(lists, name), strict=True):
            values, like = _categories(feature) if feature.levels is not None else (feature.values, None)
            made = f"{self.prefix}{own}"
            yield DerivedColumn(made, sources.backend.to_device(values), (name,), like, self.HAS_SCALE)


def list_columns(ops: Iterable[FeatureOp]) -> tuple[str, ...]:
    """Return the input columns that list ops name exactly, which are therefore read as lists."""
    ops = tuple(ops)
    named = chain.from_iterable(op.listed() for op in ops if isinstance(op, ListOp))
    made = set(chain.from_iterable(op.made_lists() for op in ops if isinstance(op, DerivedOp)))
    return tuple(dict.fromkeys(name for name in named if not (name in made or name[:1] in "@!" or is_glob(name))))


def encode_lists(name: str, sources: DerivationSources) -> tuple[Column, Lists]:
    """Return a list column, and its lists followed by a null list; shared by all ops."""
    from gpupipe.table.list_columns import Lists

    column, values = sources.main.lists(name)
    lists: Lists = sources.once(("lists", name), lambda: Lists.of(values))
    return column, lists


def require_kind(op: ListOp, what: str, column: str, kind: str, needed: str) -> None:
    """Raise ConfigError unless the items of a column have the `needed` kind, or there are none."""
    if kind != needed:
        what = f"{op.title()}: {what} needs lists of {needed}s; {column!r} has lists of {kind}s"
        raise ConfigError(what, fix="remove it, or select other columns", names=[column])


def _categories(feature: ListFeature) -> tuple[HostArray, Column]:
    """Return a feature as codes of the levels that occur."""
    import numpy as np

    from gpupipe.table.blocks import code_storage

    assert feature.levels is not None
    used, codes = np.unique(feature.values, return_inverse=True)
    codes = codes.astype(np.int64) + FIRST_LEVEL
    if len(used) and used[0] < 0:
        codes, used = np.where(codes == FIRST_LEVEL, NULL, codes - 1), used[1:]
    levels: Sequence[str] = tuple(feature.levels[i] for i in used.tolist())
    storage = code_storage(FIRST_LEVEL + len(levels))
    return codes, Column("", "categorical", "string", storage=storage, levels=tuple(levels))


def first_items(lists: Lists, position: int = 0, from_end: bool = False) -> ListFeature:
    """Return the item at a position from the start or the end of each list, null for shorter lists."""
    import numpy as np

    has = lists.lengths > position
    at = (lists.offsets[1:] - 1 - position if from_end else lists.offsets[:-1] + position)[has]
    if lists.levels is None:
        numbers = np.full(len(lists), np.nan, np.float32)
        numbers[has] = lists.items[at]
        return ListFeature(numbers)
    codes = np.full(len(lists), -1, np.int64)
    codes[has] = lists.items[at]
    return ListFeature(codes, lists.levels)
