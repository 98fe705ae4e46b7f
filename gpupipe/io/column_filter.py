"""Selection of the columns to read, determined before the files are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import chain

import pyarrow as pa

from gpupipe.errors import SchemaError, did_you_mean
from gpupipe.io.compute_formula import formula_columns
from gpupipe.io.csv_settings import WHITESPACE
from gpupipe.io.filter_expression import columns_of
from gpupipe.io.settings import JoinedTable, Source, TableSource
from gpupipe.names import MOST_HINTS, SELECTORS, NamePatterns, enumerate_names, is_unnamed, unmatched


class ColumnFilter:
    """Column selection of a source.

    `lists` are the columns that are declared as lists; those of other columns are dropped. Columns without a name, such
    as a stored row index, are ignored unless the source mentions them.

    `columns`: select exactly these, the targets and the weight; ``columns:`` and ``drop:`` are ignored.
    """

    def __init__(self, source: TableSource, columns: Iterable[str] | None = None) -> None:
        self.explicit = columns is not None
        self.keep = tuple(columns) if columns is not None else source.columns
        self.drop = () if self.explicit else tuple(name for name in source.drop if name not in SELECTORS)
        always = (*source.targets, source.weight) if isinstance(source, Source) else ()
        self.always = tuple(name for name in always if name is not None)
        self.checked = source.checked if isinstance(source, Source) and not self.explicit else ()
        self.to_filter = columns_of(source.where)  # and, below, the inputs of compute and group_by
        if isinstance(source, JoinedTable):
            self.to_filter += tuple(chain.from_iterable(map(formula_columns, source.compute.values())))
            if source.group_by is not None:
                self.to_filter += source.group_by.inputs
                self.keep = self.keep or (*source.group_by.keys, *source.group_by.made())
        self.lists = {name for name, column in source.declarations().items() if column.kind == "list"}
        self.everything = source.prepare is not None  # a hook may use any column
        self.seen: dict[str, None] = {}
        self._kept = None if self.keep is None else NamePatterns(self.keep)
        self._dropped = NamePatterns(self.drop)
        self._named = frozenset([*(self.keep or ()), *self.to_filter, *self.always, *source.declarations()])
        # Keys are read whether or not `columns` lists them with those that the join adds.
        self.keys = source.on.right if isinstance(source, JoinedTable) and not self.explicit else ()
        keys = (*source.on.right, source.time) if isinstance(source, JoinedTable) else ()
        self._stated = self._named.union(source.declared, keys)

    def fresh(self) -> ColumnFilter:
        """Return a copy that has not seen any columns."""
        other = copy(self)
        other.seen = {}
        return other

    def pick(self, names: Sequence[str]) -> list[str]:
        """Return the columns of a file that must be read, in the order of the file."""
        self.seen.update(dict.fromkeys(names))
        return [name for name in names if self.everything or name in self.to_filter or self.is_wanted(name)]

    def is_wanted(self, name: str) -> bool:
        """Return True if the column is part of the result; a column that only the row filter uses is not."""
        if name in self.always or name in self.checked or name in self.keys:
            return True
        if self.is_ignored(name):
            return False
        return (self._kept is None or self._kept.matches(name)) and not self._dropped.matches(name)

    def is_ignored(self, name: str) -> bool:
        """Return True for a column without a name that the source does not mention."""
        return is_unnamed(name) and name not in self._stated

    def is_mentioned(self, name: str) -> bool:
        """Return True if the source names the column, to use or to drop it."""
        return name in self._stated or name in self.drop

    def is_named(self, name: str) -> bool:
        """Return True if the column is requested by its exact name and so must not be dropped."""
        return name in self._named

    def select(self, table: pa.Table, label: str) -> pa.Table:
        """Return the selected columns of a table, all-null ones as float64; raise SchemaError if one is missing."""
        self.check(table.column_names, label)
        table = table.select([name for name in table.column_names if self.is_wanted(name)])
        if not any(map(pa.types.is_null, table.schema.types)):
            return table
        columns = [column.cast(pa.float64()) if pa.types.is_null(column.type) else column for column in table.columns]
        return pa.table(columns, names=table.column_names)

    def check(self, found: Sequence[str], label: str) -> None:
        """Raise SchemaError if a column that the source names is neither in `found` nor in the files."""
        needed = [*(self.keep or ()), *self.always]
        known = list(dict.fromkeys([*found, *self.seen]))
        absent = [name for name in unmatched(needed, found) if not self._dropped.matches(name)]
        absent = list(dict.fromkeys([*absent, *unmatched(self.drop, known)]))
        if absent:
            if len(known) == 1 and len(known[0].split()) > 1:
                raise SchemaError(
                    f"no such column: {enumerate_names(absent)}; the only column is {known[0]!r}",
                    where=label,
                    fix=f"set the delimiter; for runs of spaces and tabs: csv: {{delimiter: '{WHITESPACE}'}}",
                    names=absent,
                )
            hints = [
                f"{name}: {hint}"
                for name in absent[:MOST_HINTS]
                if (hint := did_you_mean(name, [*known, *SELECTORS] if name.startswith("@") else known))
            ]
            raise SchemaError(
                f"no such column: {enumerate_names(absent)}",
                where=label,
                fix="; ".join(hints) or f"the columns are {enumerate_names(known)}",
            )
