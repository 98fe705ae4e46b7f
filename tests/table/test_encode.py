"""Encoding of Arrow tables: inferred kinds, encoded values, and rejected columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import SchemaError
from tests.examples import examples

MANY = [f"text {i}" for i in range(120)]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1, None], pa.int8()), "numeric"),
        (pa.array([1, None], pa.uint64()), "numeric"),
        (pa.array([1.5, None], pa.float32()), "numeric"),
        (pa.array([1.5, None]).cast(pa.float16()), "numeric"),
        (pa.array([1, None], pa.decimal128(9, 2)), "numeric"),
        (pa.array([1, None], pa.duration("ms")), "numeric"),
        (pa.array([1, None], pa.time32("s")), "numeric"),
        (pa.nulls(2), "numeric"),
        (pa.array([True, None]), "boolean"),
        (pa.array(["a", None]), "categorical"),
        (pa.array(["a", None], pa.large_string()), "categorical"),
        (pa.array(["a", None], pa.string_view()), "categorical"),
        (pa.array(["a", None]).dictionary_encode(), "categorical"),
        (pa.array([1, None]).dictionary_encode(), "categorical"),
        (pa.array([0, None], pa.timestamp("ns")), "datetime"),
        (pa.array([0, None], pa.timestamp("s", "Europe/Berlin")), "datetime"),
        (pa.array([0, None], pa.date32()), "datetime"),
        (pa.array([0, None], pa.date64()), "datetime"),
        (pa.array(MANY), "text"),
        (pa.array([text for text in MANY for _ in range(2)]), "categorical"),
        (pa.array(MANY[:50]), "categorical"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_the_kind_of_a_column_follows_from_its_type(encoded, column: pa.Array, kind: str) -> None:
    assert encoded({"x": column}).schema["x"].kind == kind


def test_a_declared_kind_overrules_the_type(encoded, meaning) -> None:
    table = encoded({"a": [1, 2, None], "b": ["1.5", " 2 ", ""], "c": MANY[:3], "d": [1, 0, None]},
                    a="category", b="float", c="text", d="bool")  # fmt: skip
    assert [column.kind for column in table.schema] == ["categorical", "numeric", "text", "boolean"]
    assert meaning(table, "a") == ["1", "2", None]
    assert meaning(table, "b") == [1.5, 2, None]
    assert meaning(table, "d") == ["true", "false", None]


def test_categories_of_few_rows_and_many_unused_values_are_not_text(encoded) -> None:
    """Unused values occur in slices of a table and in pandas columns of dtype category."""
    frame = pd.DataFrame({"c": pd.Categorical(["a", "b"], categories=[*MANY, "a", "b"])})
    assert encoded(pa.Table.from_pandas(frame)).schema["c"].kind == "categorical"


CELLS = st.sampled_from(["a", "b", "ü", "10", "9", " ", None])


@examples(60)
@given(chunks=st.lists(st.tuples(st.lists(CELLS), st.booleans()), max_size=5))
def test_chunks_and_their_dictionaries_do_not_matter(encoded, meaning, chunks: list) -> None:
    """Each chunk has a different dictionary, with another order, duplicates, nulls, and unused values."""
    kind = pa.dictionary(pa.int32(), pa.string())
    parts, rows = [], []
    for values, is_messy in chunks:
        part = pa.array(values, pa.string()).dictionary_encode().cast(kind)
        if is_messy:
            words = [*part.dictionary.to_pylist()[::-1], None, "unused", *part.dictionary.to_pylist()]
            places = [None if v is None and i % 2 else words.index(v) for i, v in enumerate(values)]
            part = pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(words, pa.string()))
        parts.append(part)
        rows += values
    table = encoded(pa.table({"c": pa.chunked_array(parts, kind)}), c="category")
    assert meaning(table, "c") == rows
    frozen = encoded(pa.table({"c": pa.chunked_array(parts, kind)}), frozen=encoded({"c": ["a", "10"]}).schema)
    assert meaning(frozen, "c") == [v if v in ("a", "10", None) else "?" for v in rows]


def test_a_column_may_start_anywhere_in_its_buffer(encoded, meaning) -> None:
    whole = pa.table({"c": ["x", None, "y", "x"], "n": [1, None, 3, 4], "b": [True, None, False, True]})
    part = encoded(whole.slice(1, 2))
    assert [meaning(part, name) for name in "cnb"] == [[None, "y"], [None, 3], [None, "false"]]


@pytest.mark.parametrize(("levels", "storage"), [(125, "int8"), (126, "int16"), (32_765, "int16"), (32_766, "int32")])
def test_codes_are_as_narrow_as_the_levels_allow(encoded, meaning, levels: int, storage: str) -> None:
    values = [str(i) for i in range(levels)]
    table = encoded({"c": [*values, None]}, c="category")
    assert table.schema["c"].storage == storage
    assert table.column("c").dtype == storage
    assert meaning(table, "c") == [*values, None]
    again = encoded({"c": ["new", None, values[-1]]}, frozen=table.schema)
    assert meaning(again, "c") == ["?", None, values[-1]]


def test_levels_that_are_whole_numbers_are_in_the_order_of_numbers_and_others_of_bytes(encoded) -> None:
    table = encoded({"n": ["10", "9", "-1", "09"], "t": ["b", "B", "ä", "10"]})
    assert table.schema["n"].levels == ("-1", "09", "9", "10")
    assert table.schema["t"].levels == ("10", "B", "b", "ä")


@pytest.mark.parametrize(
    ("column", "levels"),
    [
        (pa.array([17850, 2, None]), ("2", "17850")),
        (pa.array([17850.0, 2.0, None]), ("2", "17850")),
        (pa.array([17850.0, -0.0, 0.0, float("nan")]), ("0", "17850")),
        (pa.array([0.5, 1e300, 2.0]), ("0.5", "1" + f"{1e300:.0f}"[1:], "2")),
        (pa.array([True, False, None]), ("false", "true")),
        (pa.array([17850, None], pa.decimal128(9, 0)), ("17850",)),
        (pa.array([0, None], pa.date32()), ("1970-01-01",)),
        (pa.array([17850, 2, None]).dictionary_encode(), ("2", "17850")),
        (pa.nulls(3), ()),
        (pa.array(["", "a"]), ("", "a")),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_whatever_is_declared_a_category_is_printed_in_one_way(encoded, column: pa.Array, levels: tuple) -> None:
    assert encoded({"c": column}, c="category").schema["c"].levels == levels


@pytest.mark.parametrize(
    "words", [["true", "FALSE", None], ["Yes", "no", ""], ["1", "0", None], ["T", " f ", " "], ["y", "N", None]]
)
def test_booleans_are_read_from_text(encoded, meaning, words: list) -> None:
    assert meaning(encoded({"b": words}, b="bool"), "b") == ["true", "false", None]


def test_text_that_is_not_a_boolean_is_reported_with_its_rows(encoded) -> None:
    with pytest.raises(SchemaError, match=r"(?s)in column 'b'; found 'Maybe'.*data rows 1, 3\n"):
        encoded({"b": ["yes", "Maybe", "no", "Maybe"]}, b="bool")


def test_an_invalid_value_that_occurs_in_no_row_is_accepted(encoded, meaning) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 2]), pa.array(["1", "unknown", "0"]))
    for kind, rows in {"bool": ["true", "false"], "float": [1, 0], "category": ["1", "0"]}.items():
        assert meaning(encoded({"x": column}, x=kind), "x") == rows
    times = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["1970-01-02", "unknown"]))
    assert meaning(encoded({"x": times}, x="date"), "x") == [86_400_000_000]


NAN = float("nan")
BLANK = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["yes", None]))
UNUSED = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["yes", None]))


@pytest.mark.parametrize("kind", ["category", "bool", "text", ("datetime", "s")], ids=str)
@pytest.mark.parametrize("float_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_a_column_with_nan_may_have_no_value(encoded, kind: Any, float_type: pa.DataType) -> None:
    for values, nullable in (([1, 0], False), ([1, NAN], True), ([], False)):
        table = encoded({"x": pa.array(np.array(values, float_type.to_pandas_dtype()))}, x=kind)
        assert table.schema["x"].nullable is nullable
        if kind == "text":
            assert table.texts["x"].null_count == nullable


@pytest.mark.parametrize(
    ("column", "kind", "nullable"),
    [
        (BLANK, "category", True),
        (BLANK, "bool", True),
        (BLANK, "text", True),
        (UNUSED, "category", False),
        (UNUSED, "bool", False),
        (["yes", " "], "bool", True),
        (["yes", " "], "category", False),
        (["2024-01-31", " "], "datetime", True),
        (["2024-01-31"], "datetime", False),
    ],
)
def test_a_column_may_have_no_value_where_a_row_has_none(encoded, column: Any, kind: str, nullable: bool) -> None:
    assert encoded({"x": column}, x=kind).schema["x"].nullable is nullable


def test_a_frozen_schema_gives_the_same_layout_whatever_comes(encoded, meaning) -> None:
    first = encoded({"x": [1, 2], "c": ["a", "b"], "b": [True, False], "t": pa.array([0, 1], pa.timestamp("us"))})
    other = encoded({
        "extra": ["?"], "t": pa.array([None], pa.timestamp("s")), "b": ["yes"], "c": ["new"], "x": ["300000000.5"],
    }, frozen=first.schema)  # fmt: skip
    assert other.schema == first.schema
    assert other.places == first.places
    assert [meaning(other, name) for name in ("x", "c", "b", "t")] == [[np.float32(3e8)], ["?"], ["true"], [None]]


def test_columns_that_are_not_there_are_named(encoded) -> None:
    schema = encoded({"age": [1], "plan": ["a"]}).schema
    with pytest.raises(SchemaError, match=r"(?s)the model needs a column.*: plan.*found: age, plans.*mean 'plans'"):
        encoded({"age": [1], "plans": ["a"]}, frozen=schema)
    with pytest.raises(SchemaError, match=r"(?s)schema: declares a column.*: aeg.*mean 'age'"):
        encoded({"age": [1]}, aeg="float")


def test_duplicate_column_names_are_rejected(encoded) -> None:
    with pytest.raises(SchemaError, match="column names are not unique: 'x'"):
        encoded(pa.table([[1], [2]], names=["x", "x"]))


@pytest.mark.parametrize("column", [pa.array([[1], None]), pa.array([{"a": 1}, None])])
def test_nested_values_are_rejected(encoded, column: pa.Array) -> None:
    with pytest.raises(SchemaError, match=r"(?s)column 'x' contains .*expected a single value per row.*drop"):
        encoded({"x": column})


def test_a_table_may_be_empty(encoded) -> None:
    schema = {
        "x": pa.int64(),
        "c": pa.string(),
        "t": pa.date32(),
        "b": pa.bool_(),
        "d": pa.dictionary(pa.int8(), pa.string()),
    }
    empty = pa.schema(schema).empty_table()
    table = encoded(empty)
    assert table.n_rows == 0
    assert encoded(empty, frozen=table.schema).n_rows == 0


def test_text_stays_as_it_was_read(encoded) -> None:
    table = encoded({"note": [*MANY, None]})
    assert table.texts["note"].to_pylist() == [*MANY, None]
    assert table.places == {}
    with pytest.raises(SchemaError, match="'note' is text"):
        table.column("note")
