"""The columns of a table: their facts, their declared kinds, and the ones to drop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpupipe.backends import choose
from gpupipe.io.settings import TableSource
from gpupipe.starter.facts import ColumnFacts, collect_facts
from gpupipe.starter.kinds import ColumnDeclaration, find_declarations
from gpupipe.starter.source_table import SourceTable, read_source_table
from gpupipe.starter.useless_columns import find_useless_columns
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table.

    Attributes
    ----------
    source_table : SourceTable
    facts : mapping of str to ColumnFacts
    declared : mapping of str to ColumnDeclaration
        What goes into ``schema:``.
    dropped : mapping of str to str
        What goes into ``drop:``, and why.
    """

    source_table: SourceTable
    facts: Mapping[str, ColumnFacts]
    declared: Mapping[str, ColumnDeclaration]
    dropped: Mapping[str, str]

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.source_table.table.num_rows)

    @property
    def kept(self) -> list[str]:
        """The columns that are not dropped."""
        return [name for name in self.facts if name not in self.dropped]

    def kind(self, name: str) -> str:
        """Return what a column is taken for."""
        if name in self.declared:
            return self.declared[name].kind
        kinds = {"text": "categorical", "integer": "numeric", "number": "numeric", "time": "datetime"}
        return kinds.get(self.facts[name].holds, "boolean")

    def declaring(self, found: Mapping[str, ColumnDeclaration]) -> TableColumns:
        """Return the columns with more declarations."""
        return replace(self, declared={**self.declared, **found})

    def dropping(self, reasons: Mapping[str, str]) -> TableColumns:
        """Return the columns with some more dropped."""
        declared = {name: declared for name, declared in self.declared.items() if name not in reasons}
        return replace(self, declared=declared, dropped={**self.dropped, **reasons})

    def encoded(self) -> Table:
        """Return the table that a run would learn from."""
        declared = {name: declare(found.kind, found.format) for name, found in self.declared.items()}
        return encode(self.source_table.table.select(self.kept), choose("cpu"), declared)


def inspect_columns(path: str, source: TableSource | None = None) -> TableColumns:
    """Read a table and inspect its columns; `source` has the format settings that the user gave.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    source_table = read_source_table(path, source)
    facts = collect_facts(source_table.table)
    declared = find_declarations(facts, source_table)
    return TableColumns(source_table, facts, declared, {}).dropping(find_useless_columns(facts, set(declared)))
