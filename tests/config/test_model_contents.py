"""Secrets in settings that the model would contain."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from gpupipe.config.model_contents import CHECKED_FIELDS
from gpupipe.features import OPS
from gpupipe.io.event_settings import GroupBy
from gpupipe.rules import ColumnRules

FREE = {"as", "expressions", "patterns", "prefix", "unit", "value"}  # of ops


def holds_text(annotation: Any) -> bool:
    if get_origin(annotation) is Literal:
        return False
    return annotation in (str, Any) or any(map(holds_text, get_args(annotation)))


def text_fields(model: Any) -> set[str]:
    return {f.alias or name for name, f in model.model_fields.items() if holds_text(f.annotation)}


def test_every_text_of_an_op_or_a_rule_is_checked_or_refused() -> None:
    """Each new field must either be validated (as a column, a date, ...) or refuse secrets."""
    fields = {field for _, op in OPS.items() for field in text_fields(op)}
    assert fields - CHECKED_FIELDS == FREE
    assert fields >= CHECKED_FIELDS
    assert text_fields(ColumnRules) == {"dtype", "range", "set", "regex"}
    assert text_fields(GroupBy) == {"keys", "columns"}
