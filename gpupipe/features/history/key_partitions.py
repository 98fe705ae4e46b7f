"""Out of memory over histories is not the end: the keys are taken in parts, each with all rows of its keys.

What an op says of a row depends on the rows of its key alone, so the parts give what all keys at once would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from gpupipe.backends.out_of_memory import by_parts
from gpupipe.features.history.derivation import Made
from gpupipe.features.history.keys import Keys
from gpupipe.features.history.tables import Rows, Sources
from gpupipe.typing import Array

if TYPE_CHECKING:
    from gpupipe.table.schema import Column


class OfKeys(Protocol):
    """An op over the history of a key, `gpupipe.features.ops.keyed_op.KeyedOp`: what is asked of it here."""

    @property
    def table(self) -> str | None:
        """The further table that the events are in; None for the main one."""

    @property
    def whose(self) -> tuple[str | None, ...]:
        """Under which name the keys are remembered."""

    def keys(self, sources: Sources) -> Keys:
        """Return whose row each is."""

    def derive(self, sources: Sources) -> Iterable[Made]:
        """Yield the columns for the rows of ``sources.main``."""


@dataclass(frozen=True)
class Part:
    """What an op made of the rows of some keys.

    Attributes
    ----------
    rows : array of int, shape (n,)
        Which rows of the main table; None for all of them.
    made : sequence of Made
        Values of shape (n,).
    """

    rows: Array | None
    made: Sequence[Made]


class SomeRows(Rows):
    """Some rows of others, which remember what was asked for; there are no columns as they were read."""

    def __init__(self, of: Rows, rows: Array) -> None:
        super().__init__(of.table, {}, of.label, of.unknown)
        self._of, self._rows = of, rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def column(self, name: str, *kinds: str, past: bool = False) -> tuple[Column, Array]:
        """Return a column and its values at these rows; see `Rows.column`."""
        column, values = self._of.column(name, *kinds, past=past)
        return column, values[self._rows]


def by_keys(op: OfKeys, sources: Sources) -> Sequence[Made]:
    """Return the columns of `op`, of all keys at once, or of fewer at a time where memory runs out; that is said.

    Raises
    ------
    LimitError
        If the history of one key is too much.
    """
    keys = op.keys(sources)

    def work(start: int, stop: int) -> Part:
        if stop - start >= keys.size:
            return Part(None, list(op.derive(sources)))
        sources.memory.clear()  # the histories of all keys, which earlier ops have left
        return part_of(op, sources, keys, start, stop)

    what = f"the history of {op.table or 'the table'}"
    return merged(by_parts(work, keys.size, sources.backend, what, noun="keys", least=1), sources)


def part_of(op: OfKeys, sources: Sources, keys: Keys, start: int, stop: int) -> Part:
    """Return the columns of `op` at the rows whose keys are ``start:stop``; rows without a key are with the first."""
    xp = sources.backend.xp
    rows = xp.flatnonzero((keys.main < stop) & (keys.main >= (start or -1)))
    seen = rows if op.table is None else xp.flatnonzero((keys.events < stop) & (keys.events >= start))
    main, events = SomeRows(sources.main, rows), dict(sources.events)
    if op.table is not None:
        further = sources.table(op.table)
        events[op.table] = replace(further, rows=SomeRows(further.rows, seen))
    part = Sources(main, events, sources.backend, sources.as_of, engines=sources.engines)
    part.once(op.whose, lambda: Keys(keys.main[rows] - start, keys.events[seen] - start, stop - start))
    return Part(rows, list(op.derive(part)))


def merged(parts: Sequence[Part], sources: Sources) -> Sequence[Made]:
    """Return the columns of all rows."""
    if parts[0].rows is None:
        return parts[0].made
    xp, columns = sources.backend.xp, []
    for i, made in enumerate(parts[0].made):
        values = xp.empty(sources.main.n_rows, made.values.dtype)
        for part in parts:
            values[part.rows] = part.made[i].values
        columns.append(replace(made, values=values))
    return columns
