"""Event tables of a model: reader settings for prediction, and rows built from events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import Derivation
from gpupipe.io.entities import add_cut_off, entity_rows
from gpupipe.io.event_settings import AS_OF, Entities
from gpupipe.io.row_steps import raw_columns
from gpupipe.io.settings import JoinedTable

if TYPE_CHECKING:
    from gpupipe.config import Config

KEPT = {"csv", "declared", "where", "compute", "group_by", "on", "time", "cardinality"}
KEYS = {JoinedTable.model_fields[name].alias or name for name in KEPT}  # no hooks: a model must not run any
GIVEN = "the given table"


@dataclass(frozen=True)
class ServedEvents:
    """Event tables of a model with their reader settings.

    Tables to predict from are computed, filtered and grouped with the settings of the training.

    `tables` has the settings by table name, without paths. `entities` has those that built the training rows from
    events; None if the rows were read from a table.
    """

    tables: Mapping[str, JoinedTable] = field(default_factory=dict)
    entities: Entities | None = None

    @classmethod
    def of(cls, config: Config, derivation: Derivation | None) -> ServedEvents:
        """Return the event tables that the features of a run read, and the one that its rows are built from.

        Only the rows need the `time` of a table: the features have theirs.
        """
        entities, names = config.source.entities, [] if derivation is None else derivation.tables
        tables = {name: config.tables[name].model_copy(update={"time": None}) for name in names}
        return cls(tables if entities is None else tables | {entities.table: config.tables[entities.table]}, entities)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values, without paths."""
        tables = {
            name: table.model_dump(mode="json", by_alias=True, include=KEPT) for name, table in self.tables.items()
        }
        entities = None if self.entities is None else self.entities.model_dump(mode="json", exclude_none=True)
        return {"tables": tables, "entities": entities}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], derivation: Derivation | None) -> ServedEvents:
        """Return the settings written by `to_json`.

        Raise ValueError or KeyError if the document is malformed.
        """
        tables = {name: _table(name, settings) for name, settings in document["tables"].items()}
        entities = None if document["entities"] is None else Entities.model_validate(document["entities"])
        if absent := {*({} if derivation is None else derivation.tables)} - {*tables}:
            raise ValueError(f"the settings of table {min(absent)!r} are missing")
        if entities is not None and (entities.table not in tables or tables[entities.table].time is None):
            raise ValueError(f"the time column of table {entities.table!r} is missing")
        return cls(tables, entities)

    def columns(self, derivation: Derivation | None, *, for_rows: bool) -> dict[str, tuple[str, ...]]:
        """Return the required event tables, each with its required columns.

        The derived columns of `derivation` name their tables. If `for_rows`, the table and columns that rows are built
        from are included.
        """
        needed = {} if derivation is None else {name: table.inputs for name, table in derivation.tables.items()}
        if for_rows and self.entities is not None:
            table = self.tables[self.entities.table]
            needed[self.entities.table] = (*needed.get(self.entities.table, ()), *table.on.right, str(table.time))
        return needed

    def require(self, given: Sequence[str], needed: Mapping[str, Sequence[str]]) -> None:
        """Raise ConfigError if a required event table is not among those `given`."""
        for name, columns in needed.items():
            if name not in given:
                read = ", ".join(raw_columns(self.tables[name], columns))
                raise ConfigError(
                    f"missing further table {name!r} (columns {read})",
                    fix=f"add --table {name}=FILE (tables={{{name!r}: ...}} in Python)",
                )

    def with_cut_off(self, rows: pa.Table, as_of: int | None, inputs: Sequence[str]) -> pa.Table:
        """Return the rows with a cut-off column if the `inputs` of the model include it.

        Raise ConfigError if neither the rows nor `as_of` give a cut-off.
        """
        if self.entities is None or AS_OF not in inputs:
            return rows
        if as_of is not None:
            return add_cut_off(rows, as_of)
        if AS_OF not in rows.column_names:
            raise ConfigError(
                "the cut-off is missing: features are computed from the events before it",
                fix=f"add --as-of DATE (as_of= in Python), or a column {AS_OF!r} with the cut-off of each row",
            )
        return rows

    def require_entities(self, inputs: Sequence[str]) -> None:
        """Raise ConfigError unless all `inputs` of the model can be built from events."""
        if self.entities is None:
            what = "the rows of this model are not built from events"
            raise ConfigError(what, fix="pass a table of rows to score")
        known = (*self.tables[self.entities.table].on.left, AS_OF)
        if more := [name for name in inputs if name not in known]:
            fix = f"pass a table of rows to score with {', '.join(dict.fromkeys([*known[:-1], *more]))}"
            raise ConfigError(f"the model reads columns that are not in the event table: {', '.join(more)}", fix=fix)

    def rows(self, events: Mapping[str, pa.Table], as_of: int) -> pa.Table:
        """Return one row per key with an event before `as_of`: the key columns and the cut-off.

        `as_of` is in microseconds since 1970-01-01 UTC. Raise DataError if there is no event before it.
        """
        assert self.entities is not None
        name = self.entities.table
        return entity_rows(events[name], self.tables[name], self.entities, [as_of])


def _table(name: str, settings: Mapping[str, Any]) -> JoinedTable:
    if unknown := set(settings) - KEYS:
        raise ValueError(f"table {name!r} has the unknown setting {min(unknown)!r}")
    return JoinedTable.model_validate({**settings, "path": GIVEN})


NO_EVENTS = ServedEvents()
