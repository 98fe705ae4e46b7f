"""The ``data:`` section: valid settings and error messages."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpupipe.config import parse_config, resolved_yaml
from gpupipe.config.schema import json_schema
from gpupipe.errors import ConfigError
from gpupipe.rules import ColumnRules
from gpupipe.rules.settings import to_micros


def configured(**rules: Any) -> Any:
    return parse_config({"source": {"path": "t.csv"}, "data": {"tenure": rules}})


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        ({"rnage": [0, 1]}, "data.tenure.rnage: unknown key; did you mean 'range'?"),
        ({"dtype": "numerc"}, "data.tenure.dtype: unknown dtype 'numerc': did you mean 'numeric'?"),
        ({"range": [5, 1]}, "data.tenure.range: the range is empty: low is 5.0, high is 1.0"),
        ({"range": ["2025-01-01", "2024-01-01"]}, "the range is empty: low is 2025-01-01, high is 2024-01-01"),
        ({"range": [None, None]}, "at least one bound must not be null"),
        ({"range": [0]}, "expected [low, high]"),
        ({"range": 5}, "expected [low, high]"),
        ({"range": [0, "2024-01-01"]}, "both bounds must be numbers, or both dates"),
        ({"range": ["soon", None]}, "expected a number or an ISO date"),
        ({"range": [0, float("nan")]}, "expected a finite number"),
        ({"regex": "(a"}, "data.tenure.regex: invalid regular expression (RE2): missing )"),
        ({"regex": "a)|(b"}, "invalid regular expression (RE2)"),
        ({"regex": "(?=a)"}, "invalid regular expression (RE2)"),
        ({"set": []}, "expected at least 1 items"),
        ({"otherwise": "ignore"}, "expected 'refuse' or 'warn'"),
        ({"nulls": True}, "data.tenure: expected at least one rule"),
        ({"dtype": "text", "range": [0, 1]}, "a range of numbers does not apply to dtype text"),
        ({"dtype": "int", "range": ["2024-01-01", None]}, "a range of dates does not apply to dtype int"),
        (
            {"dtype": "float32", "regex": "a"},
            "regex applies to categorical or text columns; by its dtype",
        ),
        ({"range": [0, 1], "regex": "a"}, "by its range, this one is numeric"),
        ({"dtype": "date", "set": ["2024-01-01"]}, "by its dtype, this one is datetime"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_at_its_place(rules: Any, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(**rules)
    assert what in str(caught.value)


def test_rules_survive_being_written_and_read() -> None:
    rules = {"dtype": "int", "nulls": False, "range": [0, None], "set": [1, 2.5], "unique": True, "otherwise": "warn"}
    config = configured(**rules)

    assert parse_config(yaml.safe_load(resolved_yaml(config))) == config
    assert config.data["tenure"].names == ["dtype", "nulls", "range", "set", "unique"]


def test_the_json_schema_has_the_rules() -> None:
    rules = json_schema()["$defs"]["ColumnRules"]["properties"]
    assert set(rules) == set(ColumnRules.model_fields)


def test_a_date_is_one_in_utc_unless_it_says_otherwise() -> None:
    assert to_micros("1970-01-02") == 86_400_000_000
    assert to_micros("1970-01-02T01:00:00+01:00") == 86_400_000_000
