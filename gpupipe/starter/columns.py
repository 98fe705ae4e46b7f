"""What the columns of a table are, whatever may be predicted from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpupipe.backends import choose
from gpupipe.io.settings import TableSource
from gpupipe.starter.facts import Facts, facts_of
from gpupipe.starter.kinds import Declaration, declarations
from gpupipe.starter.useless import useless_columns
from gpupipe.starter.written import Written, read_as_written
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    Attributes
    ----------
    written : Written
    facts : mapping of str to Facts
    declared : mapping of str to Declaration
        What goes into ``schema:``.
    dropped : mapping of str to str
        What goes into ``drop:``, and why.
    """

    written: Written
    facts: Mapping[str, Facts]
    declared: Mapping[str, Declaration]
    dropped: Mapping[str, str]

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return int(self.written.table.num_rows)

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

    def declaring(self, found: Mapping[str, Declaration]) -> Columns:
        """Return the columns with more declarations."""
        return replace(self, declared={**self.declared, **found})

    def dropping(self, reasons: Mapping[str, str]) -> Columns:
        """Return the columns with some more dropped."""
        declared = {name: declared for name, declared in self.declared.items() if name not in reasons}
        return replace(self, declared=declared, dropped={**self.dropped, **reasons})

    def encoded(self) -> Table:
        """Return the table that a run would learn from."""
        declared = {name: declare(found.kind, found.format) for name, found in self.declared.items()}
        return encode(self.written.table.select(self.kept), choose("cpu"), declared)


def inspect_columns(path: str, source: TableSource | None = None) -> Columns:
    """Read a table and find out what its columns are; `source` is what the user says of how its files are written.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    written = read_as_written(path, source)
    facts = facts_of(written.table)
    declared = declarations(facts, written)
    return Columns(written, facts, declared, {}).dropping(useless_columns(facts, set(declared)))
