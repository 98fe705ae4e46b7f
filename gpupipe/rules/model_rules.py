"""Data rules stored in a model. Importable without Arrow, for servers of single rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpupipe.rules.settings import ColumnRules
from gpupipe.table.number_texts import NumberFormat
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
            "format": self.declared.time_format or self.declared.number_format,
            "rules": rules,
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> ServedRules:
        """Return the rules from a record of `to_json`, whose types are checked; raise ValueError if it is malformed."""
        is_number = record["kind"] == "numeric"
        time_format, number_format = (None, record["format"]) if is_number else (record["format"], None)
        if number_format is not None:
            NumberFormat.from_json(number_format)
        declared = DeclaredColumn(record["kind"], time_format=time_format, number_format=number_format)
        return ServedRules(record["column"], declared, ColumnRules.model_validate(record["rules"]))
