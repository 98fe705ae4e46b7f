"""Data rules of columns, and the rows of an encoded table that violate them."""

from __future__ import annotations

from gpupipe.rules.settings import ColumnRules
from gpupipe.rules.violation import RuleViolation, describe_violations, merge_violations

__all__ = ["ColumnRules", "RuleViolation", "describe_violations", "merge_violations"]
