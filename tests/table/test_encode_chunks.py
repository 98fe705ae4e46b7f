"""Encoding in chunks against encoding at once: schema, positions, texts, and every bit of the blocks."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.backends import Backend, choose
from gpupipe.errors import SchemaError
from gpupipe.table.blocks import Table
from gpupipe.table.column_summary import ColumnSummary, used_codes
from gpupipe.table.encode import encode, plain_values
from gpupipe.table.encode_chunks import encode_chunks, start_summaries
from gpupipe.table.schema import DeclaredColumn, declare
from tests.examples import examples

TEXT = pa.dictionary(pa.int32(), pa.string())
NUMBERS = [pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.float32(), pa.float64(), pa.bool_(), pa.null()]
KINDS: dict[str, list[Any]] = {  # of texts and what each may hold
    "auto": [None, "a", "b", "7", "10", "é"],
    "numeric": [None, "1", " 2.5 ", "", "1e30"],
    "boolean": [None, "yes", "No ", "", "0"],
    "date": [None, "2024-01-31", "2024-02-01", ""],
    "time_us": [None, "01/02/2024", "12/31/2024", "10/10/1999"],
    "time_eu": [None, "01/02/2024", "31/12/2024"],
    "text": [None, "a", "b"],
    "categorical": [None, "x", "y", ""],
}


def assert_same(got: Table, expected: Table) -> None:
    assert got.schema == expected.schema
    assert got.n_rows == expected.n_rows
    assert dict(got.places) == dict(expected.places)
    assert list(got.texts) == list(expected.texts)
    for name, text in expected.texts.items():
        assert got.texts[name].type == text.type
        assert got.texts[name].to_pylist() == text.to_pylist()
    assert list(got.blocks) == list(expected.blocks)
    for name, block in expected.blocks.items():
        assert got.blocks[name].dtype == block.dtype and got.blocks[name].shape == block.shape
        assert got.blocks[name].tobytes() == block.tobytes(), name


def cut(arrow: pa.Table, ends: list[int]) -> list[pa.Table]:
    """Return the rows in chunks, each with its own dictionary, like row groups."""
    starts, stops = [0, *ends], [*ends, arrow.num_rows]
    parts = [arrow.slice(a, b - a) for a, b in zip(starts, stops, strict=True) if b > a]
    return [pa.table([_alone(c) for c in part.columns], schema=part.schema) for part in parts]


def _alone(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_dictionary(column.type):
        return column
    return column.cast(pa.string()).dictionary_encode()


def compare(parts: list[pa.Table], backend: Backend, declared: dict[str, DeclaredColumn] | None = None) -> Table:
    """Return the table, encoded both ways; check that both give the same table or reject the same columns."""
    whole = pa.concat_tables(parts)
    try:
        expected = encode(whole, backend, declared)
    except SchemaError as error:
        with pytest.raises(SchemaError) as caught:
            encode_chunks(lambda: parts, backend, whole.num_rows, declared)
        assert caught.value.names == error.names
        raise
    got = encode_chunks(lambda: parts, backend, whole.num_rows, declared)
    assert_same(got, expected)
    return got


@st.composite
def tables(draw: Any) -> tuple[list[pa.Table], dict[str, DeclaredColumn]]:
    n_rows = draw(st.integers(1, 30))
    columns: dict[str, pa.Array] = {}
    for i, kind in enumerate(draw(st.lists(st.sampled_from(NUMBERS), max_size=3))):
        big = st.sampled_from([0, 1, 2**24, 2**24 + 1, -(2**31), 2**40])
        values = {
            pa.bool_(): st.booleans(),
            pa.null(): st.none(),
            pa.int64(): big,
            pa.float32(): st.floats(width=32),
            pa.float64(): st.floats(),
        }.get(kind, st.integers(0, 100))
        cells = draw(st.lists(st.one_of(st.none(), values), min_size=n_rows, max_size=n_rows))
        columns[f"n{i}"] = pa.array(cells, kind)
    for name, pool in KINDS.items():
        cells = draw(st.lists(st.sampled_from(pool), min_size=n_rows, max_size=n_rows))
        columns[name] = pa.array(cells, pa.string()).dictionary_encode()
    declared = {name: declare(name) for name in ("numeric", "boolean", "text", "categorical")}
    declared |= {name: declare("datetime") for name in ("date", "time_us", "time_eu")}
    ends = sorted(draw(st.sets(st.integers(1, n_rows), max_size=5)))
    return cut(pa.table(columns), ends), declared


@examples(40)
@given(tables())
def test_the_parts_make_the_table_that_all_rows_make(
    drawn: tuple[list[pa.Table], dict[str, DeclaredColumn]],
) -> None:
    parts, declared = drawn
    compare(parts, choose("cpu"), declared)


@examples(40)
@given(tables())
def test_merged_summaries_equal_sequential_ones(
    drawn: tuple[list[pa.Table], dict[str, DeclaredColumn]],
) -> None:
    parts, declared = drawn
    n_rows = sum(part.num_rows for part in parts)

    def looked(some: list[pa.Table]) -> dict[str, ColumnSummary]:
        seen = start_summaries(parts[0], declared, n_rows)
        for part in some:
            for name, column in seen.items():
                column.add(plain_values(part, name))
        return seen

    try:
        together = looked(parts)
    except SchemaError as error:
        with pytest.raises(SchemaError) as caught:
            merged(list(map(looked, ([part] for part in parts))))
        assert caught.value.names == error.names
        return
    apart = merged([pickle.loads(pickle.dumps(looked([part]))) for part in parts])
    assert [c.column(n_rows) for c in apart.values()] == [c.column(n_rows) for c in together.values()]


def merged(found: list[dict[str, ColumnSummary]]) -> dict[str, ColumnSummary]:
    first, *others = found
    for other in others:
        for name, column in first.items():
            column.merge(other[name])
    return first


def test_values_of_later_chunks_count() -> None:
    def seen(values: pa.Array, declared: str) -> ColumnSummary:
        column = ColumnSummary("x", values.type, declare(declared), 10)
        column.add(pa.chunked_array([values]))
        return column

    levels = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["b", "unused"]))
    categories = seen(pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["a"])), "categorical")
    categories.merge(seen(levels, "categorical"))
    assert categories.column(2).levels == ("a", "b", "unused")
    times = seen(pa.array([None], pa.string()), "datetime")
    times.merge(seen(pa.array(["2024-01-31"]), "datetime"))
    assert (times.column(2).time_format, times.column(2).nullable) == (None, True)
    times.merge(seen(pa.array(["2024-1-5"]), "datetime"))  # no longer ISO 8601
    assert times.column(3).time_format == "%Y-%m-%d"
    with pytest.raises(SchemaError, match="no known time format matches all values"):
        times.merge(seen(pa.array(["31.01.2024"]), "datetime"))


def test_the_format_of_dates_is_decided_by_all_chunks() -> None:
    def seen(*texts: str) -> ColumnSummary:
        column = ColumnSummary("x", pa.string(), declare("datetime"), 10)
        column.add(pa.chunked_array([pa.array(texts)]))
        return column

    first = seen("03/06/2024", "04/06/2024")
    with pytest.raises(SchemaError, match=r"(?s)3 June 2024 as '%d/%m/%Y'.*'%d/%m/%Y'") as error:
        first.column(2)
    assert "6 March 2024 as '%m/%d/%Y'" in str(error.value)
    first.merge(seen("24/07/2024"))
    assert first.column(3).time_format == "%d/%m/%Y"
    with pytest.raises(SchemaError, match="no known time format matches all values"):
        first.merge(seen("07/24/2024"))


def test_chunks_with_too_many_levels_together_are_text() -> None:
    def seen(start: int, stop: int) -> ColumnSummary:
        column = ColumnSummary("x", pa.string(), None, 120)
        column.add(pa.chunked_array([[f"name {i}" for i in range(start, stop)]]))
        return column

    few, other, many = seen(0, 40), seen(40, 80), seen(0, 100)
    assert few.kind == other.kind == "categorical" and many.kind == "text"
    few.merge(other)
    assert few.column(120).kind == "text"
    for left, right in ((seen(0, 3), many), (many, seen(0, 3))):
        left.merge(right)
        assert left.column(120).kind == "text"


def last_of(first: list[Any], last: list[Any], kind: pa.DataType) -> list[pa.Table]:
    """Return many rows like the first ones, and the last ones in a separate chunk."""
    return [pa.table({"x": pa.array(part, kind)}) for part in (first, first, last)]


@pytest.mark.parametrize(
    ("first", "last", "kind", "declared"),
    [
        ([1, 2], [2**24 + 1], pa.int64(), None),
        ([1, 2], [None], pa.int32(), None),
        ([True], [None], pa.bool_(), None),
        (["b"], ["a"], pa.string(), None),
        (["1", "2"], ["x"], pa.string(), None),
        ([str(i) for i in range(130)] * 3, [str(i) for i in range(130, 140)], pa.string(), None),
        (["01/02/2024"], ["31/01/2024"], pa.string(), "datetime"),
        ([None], ["2024-01-31"], pa.string(), "datetime"),
        ([None], [None], pa.string(), "datetime"),
        ([dt.datetime(2024, 1, 1)], [None], pa.timestamp("ns"), None),
        ([1.5, 2.0], [float("nan")], pa.float64(), "categorical"),
        ([0.0, 1.0], [float("nan")], pa.float64(), "boolean"),
        ([1.5, 2.0], [float("nan")], pa.float64(), "text"),
        (["yes"], [" "], pa.string(), "boolean"),
        (["2024-01-31"], [" "], pa.string(), "datetime"),
        (["1"], [" "], pa.string(), "numeric"),
    ],
)
def test_values_of_the_last_rows_determine_the_kind(
    backend: Backend, first: list[Any], last: list[Any], kind: pa.DataType, declared: str | None
) -> None:
    compare(last_of(first, last, kind), backend, {"x": declare(declared)} if declared else None)


@pytest.mark.parametrize("repeats", [1, 3])
def test_texts_become_categories_or_not_by_their_share_of_all_rows(backend: Backend, repeats: int) -> None:
    values = [f"name {i}" for i in range(200)]
    parts = [pa.table({"x": pa.array(values).dictionary_encode()}) for _ in range(repeats)]
    table = compare(parts, backend)
    assert table.schema["x"].kind == ("text" if repeats == 1 else "categorical")


def test_texts_are_not_categories_if_there_are_fewer_rows_than_the_limit(backend: Backend) -> None:
    parts = [pa.table({"x": [f"name {i}" for i in range(a, a + 40)]}) for a in (0, 40)]
    got = encode_chunks(lambda: parts, backend, 10_000)
    assert_same(got, encode(pa.concat_tables(parts), backend))
    assert got.schema["x"].kind == "text"


@pytest.mark.parametrize("late", [0, 3, 4096, 4097, 9000])
def test_the_codes_that_rows_have_are_found_however_late_they_come(late: int) -> None:
    codes = pa.array([None, *[1] * late, 2, None], pa.int16())
    some = pa.DictionaryArray.from_arrays(codes, ["a", "b", "c"])
    assert sorted(used_codes(some).to_pylist()) == ([1, 2] if late else [2])
    full = pa.DictionaryArray.from_arrays(pa.array([*[0, 1] * late, 2]), ["a", "b", "c"])
    assert len(used_codes(full)) == (3 if late else 1)


def test_a_level_that_no_row_holds_stays_a_level(backend: Backend) -> None:
    listed = pa.DictionaryArray.from_arrays(pa.array([0, 0, None], pa.int32()), pa.array(["b", "unused"]))
    other = pa.DictionaryArray.from_arrays(pa.array([1], pa.int32()), pa.array(["also unused", "a"]))
    table = compare([pa.table({"x": listed}), pa.table({"x": other})], backend)
    assert table.schema["x"].levels == ("a", "also unused", "b", "unused")


@pytest.mark.parametrize(
    ("first", "last", "kind", "declared"),
    [
        (["1", "2"], ["3", "four"], pa.string(), "numeric"),
        (["yes", "no"], ["perhaps"], pa.string(), "boolean"),
        (["2024-01-31"], ["31.01.2024"], pa.string(), "datetime"),
        (["2024-01-31"], ["2024-13-31"], pa.string(), ("datetime", "%Y-%m-%d")),
        ([1], [2], pa.int64(), "datetime"),
        ([True], [False], pa.list_(pa.bool_()), None),
    ],
)
def test_parts_refuse_the_columns_that_the_whole_refuses(
    backend: Backend, first: list[Any], last: list[Any], kind: pa.DataType, declared: Any
) -> None:
    if pa.types.is_nested(kind):
        first, last = [first], [last]
    asked = (declared,) if isinstance(declared, str) else declared
    with pytest.raises(SchemaError):
        compare(last_of(first, last, kind), backend, {"x": declare(*asked)} if asked else None)


def test_a_refused_value_has_its_row_in_the_whole_table(backend: Backend) -> None:
    for kind, values in (("numeric", ["1", "2", "four"]), ("boolean", ["yes", "no", "perhaps"])):
        parts = [pa.table({"x": values[:2]}), pa.table({"x": values[2:]})]
        with pytest.raises(SchemaError, match=values[2]) as caught:
            encode_chunks(partial(list, parts), backend, 3, {"x": declare(kind)})
        assert caught.value.what.endswith("in data row 2")


def test_declared_columns_that_are_absent_and_names_that_are_there_twice_are_refused(backend: Backend) -> None:
    with pytest.raises(SchemaError, match="schema: declares"):
        compare([pa.table({"x": [1]})], backend, {"y": declare("float")})
    twice = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(SchemaError, match="column names are not unique"):
        encode_chunks(lambda: [twice], backend, 1)


def test_chunks_are_read_twice_and_one_at_a_time(backend: Backend) -> None:
    passes = []

    def parts() -> Iterator[pa.Table]:
        passes.append(0)
        for i in range(3):
            passes[-1] += 1
            yield pa.table({"x": [i]})

    assert encode_chunks(parts, backend, 3).column("x").tolist() == [0.0, 1.0, 2.0]
    assert passes == [3, 3]
