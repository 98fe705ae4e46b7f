"""The event tables of a model: how they are read when it serves, and the rows that are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from gpupipe.config import Config
from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import Derivation
from gpupipe.io.entities import add_cut_off, entity_rows
from gpupipe.io.event_settings import AS_OF, Entities
from gpupipe.io.row_steps import raw_columns
from gpupipe.io.settings import JoinedTable

KEPT = {"csv", "declared", "where", "compute", "group_by", "on", "time", "cardinality"}
KEYS = {JoinedTable.model_fields[name].alias or name for name in KEPT}  # a model that names a hook must not run it
GIVEN = "the table that was given"


@dataclass(frozen=True)
class ServedEvents:
    """Event tables of a model and the way it reads them.

    The rows of a table that is given are computed, filtered and grouped as those of the training were.

    Attributes
    ----------
    tables : mapping of str to JoinedTable
    entities : Entities, optional
        How the rows of the training were made of events; None where they were read.
    """

    tables: Mapping[str, JoinedTable] = field(default_factory=dict)
    entities: Entities | None = None

    @classmethod
    def of(cls, config: Config, derivation: Derivation | None) -> ServedEvents:
        """Return the event tables that the features of a run read, and those that its rows are made of."""
        entities, names = config.source.entities, dict.fromkeys([] if derivation is None else derivation.tables)
        if entities is not None:
            names[entities.table] = None
        return cls({name: config.tables[name] for name in names}, entities)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values, without paths."""
        tables = {
            name: table.model_dump(mode="json", by_alias=True, include=KEPT) for name, table in self.tables.items()
        }
        entities = None if self.entities is None else self.entities.model_dump(mode="json", exclude_none=True)
        return {"tables": tables, "entities": entities}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], derivation: Derivation | None) -> ServedEvents:
        """Return what `to_json` wrote.

        Raises
        ------
        ValueError, KeyError
            If the document is not of this version.
        """
        tables = {name: _table(name, settings) for name, settings in document["tables"].items()}
        entities = None if document["entities"] is None else Entities.model_validate(document["entities"])
        if absent := {*({} if derivation is None else derivation.tables)} - {*tables}:
            raise ValueError(f"the settings of table {min(absent)!r} are absent")
        if entities is not None and (entities.table not in tables or tables[entities.table].time is None):
            raise ValueError(f"the time of table {entities.table!r} is absent")
        return cls(tables, entities)

    def columns(self, derivation: Derivation | None, *, for_rows: bool) -> dict[str, tuple[str, ...]]:
        """Return the event tables that are needed, and the columns of each.

        Parameters
        ----------
        derivation : Derivation, optional
            What the features read.
        for_rows : bool
            Whether the rows are to be made of events too.
        """
        needed = {} if derivation is None else {name: table.inputs for name, table in derivation.tables.items()}
        if for_rows and self.entities is not None:
            table = self.tables[self.entities.table]
            needed[self.entities.table] = (*needed.get(self.entities.table, ()), *table.on.right, str(table.time))
        return needed

    def require(self, given: Sequence[str], needed: Mapping[str, Sequence[str]]) -> None:
        """Raise ConfigError if an event table that is needed is not among those that are given."""
        for name, columns in needed.items():
            if name not in given:
                read = ", ".join(raw_columns(self.tables[name], columns))
                raise ConfigError(
                    f"the model reads a further table: {name} (columns {read})",
                    fix=f"give it: --table {name}=FILE, or tables={{{name!r}: ...}}",
                )

    def with_cut_off(self, rows: pa.Table, as_of: int | None, inputs: Sequence[str]) -> pa.Table:
        """Return rows with their cut-off, if the features of the model end at it, and so have it among their `inputs`.

        Raises
        ------
        ConfigError
            If they have none, and no time is given.
        """
        if self.entities is None or AS_OF not in inputs:
            return rows
        if as_of is not None:
            return add_cut_off(rows, as_of)
        if AS_OF not in rows.column_names:
            raise ConfigError(
                "the cut-off is missing: up to when features see events",
                fix=f"give --as-of DATE (as_of= in Python), or a column {AS_OF!r} with the cut-off of each row",
            )
        return rows

    def require_entities(self, inputs: Sequence[str]) -> None:
        """Raise ConfigError unless events alone have all that a model reads of its rows, its `inputs`."""
        if self.entities is None:
            raise ConfigError("the rows of this model are not made of events", fix="give a table of rows to score")
        known = (*self.tables[self.entities.table].on.left, AS_OF)
        if more := [name for name in inputs if name not in known]:
            fix = f"give a table of rows to score with {', '.join(dict.fromkeys([*known[:-1], *more]))}"
            raise ConfigError(
                f"the model reads columns of its rows that events do not have: {', '.join(more)}", fix=fix
            )

    def rows(self, events: Mapping[str, pa.Table], as_of: int) -> pa.Table:
        """Return one row for each key with an event before `as_of`, in microseconds: its keys, and the cut-off.

        Raises
        ------
        DataError
            If there is no event before `as_of`.
        """
        assert self.entities is not None
        name = self.entities.table
        return entity_rows(events[name], self.tables[name], self.entities, [as_of])


def _table(name: str, settings: Mapping[str, Any]) -> JoinedTable:
    if strange := set(settings) - KEYS:
        raise ValueError(f"table {name!r} has the setting {min(strange)!r}")
    return JoinedTable.model_validate({**settings, "path": GIVEN})


NO_EVENTS = ServedEvents()
