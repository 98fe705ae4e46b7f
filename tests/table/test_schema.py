"""Schema, its serialisation, and declarations of columns in the configuration."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import SchemaError
from gpupipe.table.schema import DECLARATIONS, KINDS, Column, Schema, declare

SCHEMA = Schema((
    Column("age", "numeric", "int64", nullable=False, storage="float32"),
    Column("plan", "categorical", "string", storage="int8", levels=("a", "b")),
    Column("active", "boolean", "bool", storage="int8", levels=("false", "true")),
    Column("since", "datetime", "string", storage="int64", time_format="%Y-%m-%d"),
    Column("note", "text", "string"),
    Column("plan#8", "categorical", "string", storage="int8", hash_of="plan", n_buckets=8),
))  # fmt: skip


def test_it_comes_back_from_json_as_it_went() -> None:
    levels = {column.name: column.levels for column in SCHEMA if column.levels is not None}
    assert Schema.from_json(json.loads(json.dumps(SCHEMA.to_json())), levels) == SCHEMA


def test_codes_are_counted_with_the_reserved_ones() -> None:
    assert [column.n_codes for column in SCHEMA] == [0, 5, 5, 0, 0, 11]
    assert SCHEMA["plan#8"].source == "plan"


def test_columns_are_found_by_name() -> None:
    assert SCHEMA.select(["note", "age"]).names == ("note", "age")
    assert SCHEMA.without(["plan", "not there"]).names == ("age", "active", "since", "note", "plan#8")
    assert "age" in SCHEMA
    assert "Age" not in SCHEMA
    with pytest.raises(SchemaError, match=r"(?s)'Age'.*did you mean 'age'"):
        SCHEMA["Age"]


@given(st.sampled_from(sorted(DECLARATIONS)))
def test_every_name_of_a_type_means_a_kind(name: str) -> None:
    assert declare(name).kind in KINDS
    assert declare(name, "s").time_format == "s"


def test_a_type_that_there_is_not_is_hinted_at() -> None:
    with pytest.raises(SchemaError, match=r"(?s)unknown dtype 'flaot'.*did you mean 'float'"):
        declare("flaot")
