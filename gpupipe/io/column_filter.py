"""Selection of the columns to read, known before a byte of the files is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

import pyarrow as pa

from gpupipe.errors import SchemaError, did_you_mean
from gpupipe.io.compute_formula import formula_columns
from gpupipe.io.filter_expression import columns_of
from gpupipe.io.settings import WHITESPACE, JoinedTable, Source, TableSource
from gpupipe.names import MOST_HINTS, NamePatterns, enumerate_names, unmatched


class ColumnFilter:
    """The columns that a source selects.

    Parameters
    ----------
    source : TableSource
    columns : iterable of str, optional
        Ask for exactly these (and the target) instead of what ``columns:`` and ``drop:`` leave.
    """

    def __init__(self, source: TableSource, columns: Iterable[str] | None = None) -> None:
        self.explicit = columns is not None
        self.keep = tuple(columns) if columns is not None else source.columns
        self.drop = () if self.explicit else tuple(name for name in source.drop if not name.startswith("@"))
        self.target = source.target if isinstance(source, Source) else None
        self.checked = source.checked if isinstance(source, Source) and not self.explicit else ()
        self.to_filter = columns_of(source.where)  # and to compute and group by
        if isinstance(source, JoinedTable):
            self.to_filter += tuple(name for text in source.compute.values() for name in formula_columns(text))
            if source.group_by is not None:
                self.to_filter += source.group_by.inputs
                self.keep = self.keep or (*source.group_by.keys, *source.group_by.made())
        self.everything = source.prepare is not None  # a hook may make any column of any other
        self.seen: dict[str, None] = {}
        self._kept = None if self.keep is None else NamePatterns(self.keep)
        self._dropped = NamePatterns(self.drop)
        self._named = frozenset([*(self.keep or ()), *self.to_filter, self.target])

    def fresh(self) -> ColumnFilter:
        """Return the same filter, which has seen no column."""
        other = copy(self)
        other.seen = {}
        return other

    def pick(self, names: Sequence[str]) -> list[str]:
        """Return those of a file's columns that must be read, in the order of the file."""
        self.seen.update(dict.fromkeys(names))
        return [name for name in names if self.everything or name in self.to_filter or self.is_wanted(name)]

    def is_wanted(self, name: str) -> bool:
        """Whether the column belongs to the result (one that only the row filter needs does not)."""
        if name == self.target or name in self.checked:
            return True
        return (self._kept is None or self._kept.matches(name)) and not self._dropped.matches(name)

    def is_named(self, name: str) -> bool:
        """Return whether the column is requested by its exact name, so that it must not be dropped."""
        return name in self._named

    def select(self, table: pa.Table, label: str) -> pa.Table:
        """Return the table with the selected columns, all-null ones as numbers; raise SchemaError if one is absent."""
        self.check(table.column_names, label)
        table = table.select([name for name in table.column_names if self.is_wanted(name)])
        if not any(map(pa.types.is_null, table.schema.types)):
            return table
        columns = [column.cast(pa.float64()) if pa.types.is_null(column.type) else column for column in table.columns]
        return pa.table(columns, names=table.column_names)

    def check(self, found: Sequence[str], label: str) -> None:
        """Raise SchemaError if a column that the source names is not among those `found` or seen in the files."""
        needed = [*(self.keep or ()), *([self.target] if self.target else [])]
        known = list(dict.fromkeys([*found, *self.seen]))
        absent = [name for name in unmatched(needed, found) if not self._dropped.matches(name)]
        absent = list(dict.fromkeys([*absent, *unmatched(self.drop, known)]))
        if absent:
            if len(known) == 1 and len(known[0].split()) > 1:
                raise SchemaError(
                    f"no such column: {enumerate_names(absent)}; the only one is {known[0]!r}",
                    where=label,
                    fix=f"state what separates the fields; for runs of blanks: csv: {{delimiter: '{WHITESPACE}'}}",
                    names=absent,
                )
            hints = [f"{name}: {hint}" for name in absent[:MOST_HINTS] if (hint := did_you_mean(name, known))]
            raise SchemaError(
                f"no such column: {enumerate_names(absent)}",
                where=label,
                fix="; ".join(hints) or f"the columns are {enumerate_names(known)}",
            )
