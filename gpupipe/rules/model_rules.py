"""Data rules stored in a model. Importable without Arrow, for servers of single rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupipe.rules.settings import ColumnRules
from gpupipe.table.schema import DeclaredColumn


@dataclass(frozen=True)
class ServedRules:
    """Rules of a column, stored in a model; `declared` is its kind and format in training."""

    column: str
    declared: DeclaredColumn
    rules: ColumnRules

    @property
    def recorded(self) -> DeclaredColumn:
        """The declaration for rows to predict, from which nothing is inferred."""
        return replace(self.declared, is_recorded=True)

    def to_json(self) -> dict[str, Any]:
        """Return the record of the manifest."""
        rules = self.rules.model_dump(mode="json", exclude_defaults=True)
        return {
            "column": self.column,
            "kind": self.declared.kind,
            "format": self.declared.time_format,
            "rules": rules,
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> ServedRules:
        """Return the rules from a record of `to_json`, whose types are checked; raise ValueError if it is malformed."""
        declared = DeclaredColumn(record["kind"], time_format=record["format"])
        return ServedRules(record["column"], declared, ColumnRules.model_validate(record["rules"]))
