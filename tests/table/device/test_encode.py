"""Encoding of device frames against that of Arrow tables: schema, levels, storage, and every bit of the blocks."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import SchemaError
from gpupipe.io.device.source_reader import text_rules
from gpupipe.io.notes import Notes
from gpupipe.io.source_reader import plain_arrow
from gpupipe.table.blocks import Table
from gpupipe.table.device.encode import BLANKS, TextRules, encode_frame
from gpupipe.table.device.frame_columns import DeviceNumbers, to_micros
from gpupipe.table.encode import encode
from gpupipe.table.schema import NAT, DeclaredColumn, declare
from tests.examples import examples

CHECKS = Path(__file__).with_name("columns_checks.py")
RULES = text_rules(Notes(), strip=True)
KINDS = ["float", "float32", "category", "text", ("datetime", "s"), "bool"]


def as_frame(arrow: pa.Table) -> pd.DataFrame:
    """Return a frame of nullable Arrow types, like cuDF's; it has no dates."""
    columns = {
        n: arrow[n].cast(pa.timestamp("s")) if pa.types.is_date(arrow[n].type) else arrow[n] for n in arrow.column_names
    }
    return pa.table(columns).to_pandas(types_mapper=pd.ArrowDtype)


def assert_same(got: Table, expected: Table) -> None:
    assert got.schema == expected.schema
    assert got.n_rows == expected.n_rows
    assert dict(got.places) == dict(expected.places)
    assert {name: (len(text), text.null_count) for name, text in got.texts.items()} == {
        name: (len(text), text.null_count) for name, text in expected.texts.items()
    }
    assert set(got.blocks) == set(expected.blocks)
    for name, block in expected.blocks.items():
        found = got.blocks[name]
        assert found.dtype == block.dtype and found.shape == block.shape
        # A missing number may be any NaN; minus zero is not zero.
        known = ~np.isnan(block) if block.dtype.kind == "f" else np.ones(block.shape, bool)
        np.testing.assert_array_equal(known, ~np.isnan(found) if block.dtype.kind == "f" else known)
        assert found[known].tobytes() == block[known].tobytes(), name


def compare(backend: Any, arrow: pa.Table, declared: dict[str, DeclaredColumn] | None = None) -> Table:
    expected = encode(plain_arrow(arrow), backend, declared)
    assert_same(encode_frame(as_frame(arrow), backend, declared, rules=RULES), expected)
    return expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, None, False]),
        pa.array([True, False]),
        pa.array([1, None, -3], pa.int8()),
        pa.array([1, 2**24], pa.int64()),
        pa.array([1, 2**24 + 1], pa.int64()),
        pa.array([2**63 - 1, -(2**63), None], pa.int64()),
        pa.array([2**53 + 1, 7], pa.int64()),
        pa.array([1, None, 2**32 - 1], pa.uint32()),
        pa.nulls(3, pa.int16()),
        pa.array([0.1, -0.0, None, np.nan, np.inf, -np.inf, 1e300, 5e-324]),
        pa.array([0.1, -0.0, None, np.nan, np.inf, 3e38, 1e-45], pa.float32()),
        pa.nulls(3, pa.float64()),
        pa.array([0, -1, None, 2**40], pa.timestamp("us")),
        pa.array([-1, -999, -1000, -1001, 1999, None, 2**62], pa.timestamp("ns")),
        pa.array([-1, 1, None, 2**60], pa.timestamp("ms")),
        pa.array([-1, 1, None, 2**60], pa.timestamp("s")),
        pa.array([0, None], pa.timestamp("us", "Europe/Berlin")),
        pa.array([0, -30_000, None], pa.date32()),
        pa.array(["b", "a", None, "", "ü", "b "]),
        pa.array(["10", "9", None, "-1"]),
        pa.nulls(3, pa.string()),
        pa.array([f"text {i}" for i in range(120)]),
        pa.array([f"text {i % 60}" for i in range(120)]),
        pa.array([None, *(f"text {i}" for i in range(120))]),
    ],
    ids=lambda column: f"{column.type}-{len(column)}",
)
@pytest.mark.parametrize("n_rows", [None, 0])
def test_a_column_of_any_type_is_encoded_as_on_the_host(backend, column: pa.Array, n_rows: int | None) -> None:
    compare(backend, pa.table({"x": column.slice(0, n_rows)}))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(
    "column",
    [
        pa.array([True, None, False]),
        pa.array([0, 1, None], pa.int32()),
        pa.array([0.0, 1.0, -0.0, None]),
        pa.array([0.0, 1.0, np.nan]),
        pa.array(["1", "0", None, " "]),
        pa.array(["1", "0"]),
    ],
    ids=lambda column: f"{column.type}-{len(column)}",
)
def test_a_declared_kind_is_met_or_refused_as_on_the_host(backend, column: pa.Array, kind: Any) -> None:
    declared = {"x": declare(*((kind,) if isinstance(kind, str) else kind))}
    arrow = pa.table({"x": column})
    try:
        expected = encode(plain_arrow(arrow), backend, declared)
    except SchemaError as error:
        with pytest.raises(SchemaError) as refused:
            encode_frame(as_frame(arrow), backend, declared, rules=RULES)
        assert str(refused.value) == str(error)
    else:
        assert_same(encode_frame(as_frame(arrow), backend, declared, rules=RULES), expected)


@pytest.mark.parametrize("kind", ["category", "float", "text"])
def test_times_may_be_declared_to_be_something_else(backend, kind: str) -> None:
    compare(backend, pa.table({"x": pa.array([0, None, 86_400, 0], pa.timestamp("s"))}), {"x": declare(kind)})


def test_texts_that_are_times_by_declaration_are_parsed_value_by_value(backend) -> None:
    arrow = pa.table({"x": ["31.12.2024", None, "01.02.1969", "31.12.2024"]})
    assert compare(backend, arrow, {"x": declare("datetime")}).schema["x"].time_format == "%d.%m.%Y"


def test_an_error_names_the_rows_that_hold_the_wrong_value(backend) -> None:
    frame = as_frame(pa.table({"x": ["1", None, "one", "2", "one"]}))
    with pytest.raises(SchemaError, match=r"expected a number in column .*; found 'one'") as error:
        encode_frame(frame, backend, {"x": declare("float")})
    assert "data rows 2, 4\n" in str(error.value)


def test_a_column_that_is_needed_and_absent_is_named(backend) -> None:
    frame = as_frame(pa.table({"tenure": [1]}))
    with pytest.raises(SchemaError, match="tenur"):
        encode_frame(frame, backend, {"tenur": declare("float")})


def test_a_frame_of_numpy_types_means_the_same(backend) -> None:
    frame = pd.DataFrame({"n": [1, 2], "f": [np.nan, 1.5], "b": [True, False], "s": ["x", None],
                          "t": pd.to_datetime(["2024-01-31", "NaT"]).as_unit("ms")})  # fmt: skip
    expected = encode(plain_arrow(pa.Table.from_pandas(frame)), backend)
    assert_same(encode_frame(frame, backend), expected)


def test_texts_are_free_however_many_of_them_mean_missing(backend) -> None:
    """Missing values and blanks reduce the number of distinct texts, and the limit is exact nevertheless."""
    words = [f"w{i}" for i in range(50)]
    for distinct in (words, [*words, "one more"]):
        column = [*distinct, " NA", "NA", "NA ", "", " "]

        def read(name: str, texts: pa.StringArray) -> pa.Array:
            return pa.array([None if t.strip() in ("NA", "") else t for t in texts.to_pylist()], pa.string())

        rules = TextRules(read, ("NA", ""))
        found = encode_frame(as_frame(pa.table({"x": column})), backend, rules=rules).schema["x"]
        assert (found.kind, found.nullable) == ("categorical" if distinct is words else "text", True)


def test_a_wrong_boolean_is_found_in_its_row(backend) -> None:
    frame = pd.DataFrame({"b": pd.Series(["yes", "no", "no", "maybe"], dtype="string[pyarrow]")})
    with pytest.raises(SchemaError, match="maybe") as error:
        encode_frame(frame, backend, {"b": declare("boolean")})
    assert error.value.what.endswith("in data row 3")


def test_blanks_are_those_that_arrow_trims() -> None:
    every = pa.array([chr(i) for i in range(0x110000) if not 0xD800 <= i < 0xE000])
    trimmed = pa.compute.utf8_trim_whitespace(every).to_pylist()
    assert "".join(a for a, b in zip(every.to_pylist(), trimmed, strict=True) if not b) == BLANKS


INTEGERS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**24, 2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63)]))
FLOATS = st.one_of(st.none(), st.floats(), st.floats(width=32))
TEXTS = st.one_of(st.none(), st.sampled_from(["", " ", "NA", "a", "a ", "10", "9", "ü", "\x00"]), st.text(max_size=3))
TYPES = {"i": pa.int64(), "f": pa.float64(), "s": pa.string(), "b": pa.bool_(), "t": pa.timestamp("ns")}


@st.composite
def tables(draw: Any) -> pa.Table:
    n_rows = draw(st.integers(0, 30))
    cells = {
        "i": INTEGERS,
        "f": FLOATS,
        "s": TEXTS,
        "b": st.sampled_from([None, True, False]),
        "t": INTEGERS.filter(lambda t: t != NAT),
    }
    rows = {n: draw(st.lists(cell, min_size=n_rows, max_size=n_rows)) for n, cell in cells.items()}
    return pa.table({name: pa.array(values, TYPES[name]) for name, values in rows.items()})


def cleaned(arrow: pa.Table) -> pa.Table:
    """Return the rows from a reader without rules, where no text represents a missing value."""
    times = pc.floor_temporal(arrow["t"], unit="microsecond").cast(pa.timestamp("us"), safe=False)
    return arrow.set_column(arrow.column_names.index("t"), "t", times)


@examples(40)
@given(arrow=tables())
def test_mixed_columns_are_encoded_as_on_the_host(backend, arrow: pa.Table) -> None:
    assert_same(encode_frame(as_frame(arrow), backend), encode(cleaned(arrow), backend))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@examples(50)
@given(ticks=st.lists(st.integers(-(2**63) + 1, 2**63 - 1)))
def test_times_of_every_unit_are_microseconds_rounded_down(unit: str, ticks: list[int]) -> None:
    per_tick = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[unit]
    exact = [t // 1000 if unit == "ns" else t * per_tick for t in ticks]
    expected = [t if abs(t) < 2**63 else NAT for t in exact]
    assert to_micros(np.array(ticks, np.int64), unit, np).tolist() == expected


def test_the_summary_of_numbers_has_their_type_bounds_and_nulls(backend) -> None:
    numbers = DeviceNumbers(np.array([5, 99, -7]), np.array([True, False, True]), pa.int64())
    assert numbers.summary().to_pylist() == [-7, 5, None]


def test_of_a_text_column_the_rows_without_a_text_are_known(backend) -> None:
    texts = [f"text {i}" for i in range(58)]
    arrow = pa.table({"x": [None, " NA", *texts], "y": [True, False] * 30})
    table = encode_frame(as_frame(arrow), backend, rules=RULES)
    assert (len(table.texts["x"]), table.texts["x"].null_count) == (60, 2)
    part = table.take(np.arange(60) % 2 == 1, backend)
    assert (len(part.texts["x"]), part.texts["x"].null_count) == (30, 1)


def peak_bytes(columns: dict[str, Any], backend: Any) -> int:
    """Return NumPy's peak memory while `columns` were encoded, including their own arrays."""
    tracemalloc.reset_peak()
    encode_frame(columns, backend)
    assert not columns
    return tracemalloc.get_traced_memory()[1]


def test_codes_of_one_text_column_at_a_time_are_in_memory(backend) -> None:
    n_rows, n_columns = 50_000, 20
    texts = pd.Series(pa.array(np.arange(n_rows) % 100).cast(pa.string()), dtype=pd.ArrowDtype(pa.string()))
    tracemalloc.start()
    try:
        peak = peak_bytes({f"t{i}": texts for i in range(n_columns)}, backend)
    finally:
        tracemalloc.stop()
    # int64 and int32 codes of one column; int8 codes of all, twice while they are stacked; 3 for the codes' look-up
    assert peak < n_rows * (8 + 4 + 2 * n_columns + 3)


def test_sources_are_released_as_they_are_encoded(backend) -> None:
    n_rows, n_columns = 50_000, 20
    tracemalloc.start()
    try:
        valid = np.ones(n_rows, bool)
        columns = {f"n{i}": DeviceNumbers(np.arange(n_rows), valid, pa.int64()) for i in range(n_columns)}
        sources = tracemalloc.get_traced_memory()[0]
        peak = peak_bytes(columns, backend)
    finally:
        tracemalloc.stop()
    assert peak < sources + n_rows * 5 * 4  # float32 values, what becomes them, and masks: of one column


def test_on_a_device_rows_stay_there() -> None:
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(CHECKS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
