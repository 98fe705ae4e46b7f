"""JSON lines read on a device: the host's table, or a fallback to the host."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gpupipe.datasets.churn import customers
from gpupipe.errors import DataError, GpupipeError, SchemaError
from gpupipe.io.column_filter import ColumnFilter
from gpupipe.io.device.jsonl import reader, structure
from gpupipe.io.device.jsonl.structure import JsonLines, plain_lines
from gpupipe.io.device.obstacles import UnsupportedOnDevice
from gpupipe.io.device.text_values import JsonTexts
from gpupipe.io.files import SourceFile
from gpupipe.io.notes import Notes
from gpupipe.io.settings import Source
from tests.backends.pandas_double import PandasBackend
from tests.examples import examples
from tests.io.device.test_source_reader import compare, on_device, on_host


@pytest.fixture(scope="module")
def backend() -> PandasBackend:
    return PandasBackend()


def source_of(folder: Path, *contents: str | bytes, **options: Any) -> Source:
    paths = [folder / f"{i}.jsonl" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Source(path=[str(path) for path in paths], **options)


def lines(*values: str) -> str:
    return "".join(f'{{"x": {value}, "y": 1}}\n' for value in values)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["1", "-2", "null", "0"], "int64"),
        (["1", "999999999999999", "9007199254740993", "9223372036854775807", "-9223372036854775808"], "int64"),
        (["0.1", "-0.0", "0.30000000000000004", "9.999999999999999", "1e5", "-12345678901234.5", "-1.5E-3"], "double"),
        (["1", "2.5"], "double"),
        (["-0", "0.5"], "double"),
        (["1", "NaN", "-Infinity", "Infinity"], "double"),
        (["true", "null", "false"], "bool"),
        (["null", "null"], "double"),
        (['"1"', '"2.5"', '"true"', '"null"'], "string"),
        (['"a"', "null", '""', '" NA "', '"a"'], "string"),
        (['"2024-01-31"', "null", '"2024-02-01T10:20:30+01:00"'], "timestamp[us]"),
        (['"2024-01-31 10:20"', '"1969-12-31"', '"0001-01-01T00:00:00Z"'], "timestamp[us]"),
        (['"2024-01-31"', '""'], "string"),
        (['"2024-01-31"', '"soon"'], "string"),
        (['"2024-01-31"', '"a\\"b"'], "string"),
        (['"10:20"', '"2024-01-31 10:20:30.5"'], "string"),
        ([r'"say \"hi\" \\"', r'"\\\" , {\"x\": 1}"', r'"\/\b\f\n\r\t"', r'"\u00e9\uD83D\uDE00"'], "string"),
        (['"{[,:]}"', '"\u00e9 \u4e2d \U0001f600"', '"\x7f"'], "string"),
    ],
    ids=str,
)  # fmt: skip
def test_a_column_has_the_type_and_the_values_that_arrow_gives_it(
    tmp_path: Path, backend: PandasBackend, values: list[str], dtype: str
) -> None:
    assert compare(source_of(tmp_path, lines(*values)), backend).schema["x"].dtype == dtype


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ('{"b": 1}\n{"a": 2, "b": null}\n{}\n{"c": null, "a": 3}', ["b", "a", "c"]),
        (' { "a" :\t1 , "b":"x" } \t\r\n\r\n  \n{"a":2}\r\n', ["a", "b"]),
        ('\ufeff{"a": 1}\n', ["a"]),
        ('{"customer number, billing": 1, "customer number, sales": 2, "customer": 3, "\u00e9 \u4e2d": 4}', None),
        ('{"a": 1, "aa": 2, "aaaaaaaa": 3, "aaaaaaaaa": 4}\n{"aaaaaaaaa": 5, "a": 6}', None),
    ],
)
def test_names_come_in_the_order_in_which_they_first_appear(
    tmp_path: Path, backend: PandasBackend, content: str, names: list[str] | None
) -> None:
    first = json.loads(content.lstrip("\ufeff").splitlines()[0])
    assert compare(source_of(tmp_path, content), backend).schema.names == tuple(names or first)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"a": [1]}', "nested"), ('{"a": {"b": 1}}', "nested"), ("[1, 2]", "nested"),
        ('{"a": 1} {"a": 2}', "flat object"), ('{"a":\n1}', "flat object"), ('{"a": 1,}', "flat object"),
        ('{"a": 1, "b"}', "flat object"), ('{"a": "b": "c"}', "flat object"), ("null", "flat object"),
        ('{"a": 1}\r{"a": 2}', "flat object"), ('{"a" 1}', "flat object"), ("{'a': 1}", "flat object"),
        ('{"a": 1 2}', "flat object"), ('{"a": "x" "y"}', "flat object"), ('{"a": }', "flat object"),
        ('{"a": 1', "flat object"), ("\x00", "flat object"), ('{a: 1}', "flat object"),
        ('{"a": "x\ny"}', "line break"), ('{"a": "x\ty"}', "control character"), ('{"a": "x', "line break"),
        (r'{"a": \n}', "outside strings"), (r'{"a": "\q"}', "invalid escape"), (r'{"a": "\u12g4"}', "invalid, or NUL"),
        (r'{"a": "\u0000"}', "NUL"), (r'{"a": "\ud83d"}', "surrogate"), (r'{"a": "\ude00\ud83d"}', "surrogate"),
        (r'{"a": "\ud83dx\ude00"}', "surrogate"), (r'{"a": 1, "\u0061": 2}', "has escapes"),
        ('{"": 1}', "is empty"), (f'{{"{"a" * 2000}": 1}}', "longer"), ('{"a": 1, "a": null}', "duplicate keys"),
        ('{"a": 1}\n{"b": 1, "c": 2, "b": 3}', "duplicate keys"),
        (b'{"a": "\xff"}', "UTF-8"), ('{"a": 1}'.encode("utf-16"), "UTF-8"), (b'{"a": "\xed\xa0\x80"}', "UTF-8"),
    ],
    ids=str,
)  # fmt: skip
def test_lines_that_are_not_plain_fall_back_to_the_host(backend: PandasBackend, content: str | bytes, why: str) -> None:
    with pytest.raises(UnsupportedOnDevice, match=why):
        plain_lines((content if isinstance(content, bytes) else content.encode()) + b"\n", backend)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (lines("1", '"x"'), "both strings and other values"), (lines("1", "true"), "several types"),
        (lines("1e400"), "invalid JSON"), ('{"a": "x"}\n{"a": false}', "both strings and other values"),
        ("{}\n{}", "all objects are empty"), ('{"a": [1]}', "nested"),
    ],
    ids=str,
)  # fmt: skip
def test_unselected_columns_also_fall_back_to_the_host_reader(
    tmp_path: Path, backend: PandasBackend, content: str, why: str
) -> None:
    with pytest.raises(UnsupportedOnDevice, match=why):
        on_device(source_of(tmp_path, content, columns=["y"]), backend)


@pytest.mark.parametrize("word", ["01", "1.", ".5", "+1", "-", "1e", "tru", "True", "nul", "NULL", "0x1", "1_0"])
def test_an_invalid_json_word_falls_back_to_the_host(backend: PandasBackend, word: str) -> None:
    texts = JsonTexts(SourceFile("t.jsonl", 0, 0, "jsonl"), ColumnFilter(Source(path="t.jsonl")), Notes())
    with pytest.raises(UnsupportedOnDevice, match="invalid JSON"):
        reader._column("x", pd.Series(["2", word, None], dtype="str"), texts, backend)


@pytest.mark.parametrize(
    "options",
    [{"columns": ["b", "c*"]}, {"drop": ["a"]}, {"schema": {"a": "categorical"}}, {"schema": {"d": "categorical"}},
     {"schema": {"d": "text", "a": "text"}}, {"target": "a", "columns": ["b"]}, {"where": "a >= 1 and b is not None"},
     {"where": "d > '2024-01-01' or c == 'x'", "columns": ["a"]}],
    ids=str,
)  # fmt: skip
def test_settings_mean_the_same(tmp_path: Path, backend: PandasBackend, options: dict[str, Any]) -> None:
    rows = ['{"a": 1, "b": true, "c": "x", "d": "2024-01-31"}', '{"a": 2.5, "c": "NA"}', '{"a": 3, "d": "2023-01-01"}']
    compare(source_of(tmp_path, "\n".join(rows), **options), backend)


@pytest.mark.parametrize(
    ("contents", "dtypes"),
    [
        ([lines("1"), lines("2")], ["int64", "int64"]),
        ([lines("1"), lines("2.5", "null")], ["double", "int64"]),
        ([lines("null"), lines('"a"')], ["string", "int64"]),
        ([lines('"NA"', '""'), lines("1")], ["int64", "int64"]),
        ([lines('"NA"', '""'), lines("null")], ["string", "int64"]),
        ([lines('"2024-01-31"'), lines("null", '"2024-02-01"')], ["timestamp[us]", "int64"]),
        ([lines("true"), '{"z": "a"}', "\n\n"], ["bool", "int64", "string"]),
    ],
    ids=str,
)
def test_files_are_put_together_as_on_the_host(
    tmp_path: Path, backend: PandasBackend, contents: list[str], dtypes: list[str]
) -> None:
    found = compare(source_of(tmp_path, *contents), backend)
    assert [column.dtype for column in found.schema] == dtypes


@pytest.mark.parametrize("other", ['"a"', "true", '"2024-01-31"'])
def test_types_without_a_common_type_are_refused_alike(tmp_path: Path, backend: PandasBackend, other: str) -> None:
    source = source_of(tmp_path, lines("1"), lines(other))
    with pytest.raises(SchemaError) as expected:
        on_host(source, backend)
    with pytest.raises(SchemaError) as refused:
        on_device(source, backend)
    assert str(refused.value) == str(expected.value)


@pytest.mark.parametrize("options", [{"columns": ["z"]}, {"columns": ["x", "z"]}])
def test_a_missing_column_is_reported_as_on_the_host(
    tmp_path: Path, backend: PandasBackend, options: dict[str, Any]
) -> None:
    source = source_of(tmp_path, lines("1"), **options)
    with pytest.raises(SchemaError) as expected:
        on_host(source, backend)
    with pytest.raises(SchemaError) as refused:
        on_device(source, backend)
    assert refused.value.what == expected.value.what


@pytest.mark.parametrize("content", ["", "\n", "  \n\r\n"])
def test_a_file_without_rows_is_refused(tmp_path: Path, backend: PandasBackend, content: str) -> None:
    with pytest.raises(DataError, match="there are no rows"):
        on_device(source_of(tmp_path, content), backend)


@pytest.mark.parametrize("chunk_bytes", [1, 7, 30, 100, 10_000])
def test_parts_are_put_together_wherever_they_end(
    tmp_path: Path, backend: PandasBackend, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", chunk_bytes)
    rows = [{"n": 1, "s": "a\n"}, {"late": 0.25, "n": None}, {"s": "\u00e9", "n": 3}, {"flag": True, "late": 1}]
    compare(source_of(tmp_path, "\n".join(json.dumps(row) for row in rows)), backend)


def test_a_line_of_more_bytes_than_a_device_counts_is_the_hosts(
    backend: PandasBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(structure, "MOST_BYTES", 8)
    assert plain_lines(b'{"a":1}\n', backend) == JsonLines(("a",), 1, 1)
    with pytest.raises(UnsupportedOnDevice, match="a line has more than"):
        plain_lines(b'{"a":11}\n', backend)


def test_generated_customers_are_the_same(tmp_path: Path, backend: PandasBackend) -> None:
    table = customers(2_000).to_pandas()
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True, date_format="iso", date_unit="s")
    assert compare(Source(path=str(tmp_path / "t.jsonl")), backend).n_rows == 2_000


# A text or null, or another word, of which only the position is checked.
WORDS = r'("(?:[^"\\]|\\.)*"|null(?![a-z0-9]))|[a-z0-9]+'
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=["Cs"]), max_size=4)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(width=64) | st.sampled_from([0, 1, -1, 0.5, 1e22])
KINDS = [NUMBERS, st.booleans(), TEXTS, st.dates().map(str), NUMBERS | TEXTS]


@st.composite
def tables(draw: Any) -> list[dict[str, Any]]:
    kinds = {name: st.none() | draw(st.sampled_from(KINDS)) for name in ("a", "ab", "a b")}
    rows: list[dict[str, Any]] = draw(st.lists(st.fixed_dictionaries({}, optional=kinds), min_size=1, max_size=6))
    return rows


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=tables(), ascii_alone=st.booleans())
def test_lines_of_any_values_are_the_same_or_the_hosts(
    tmp_path: Path, backend: PandasBackend, rows: list[dict[str, Any]], ascii_alone: bool
) -> None:
    source = source_of(tmp_path, "\n".join(json.dumps(row, ensure_ascii=ascii_alone) for row in rows))
    try:
        compare(source, backend)
    except UnsupportedOnDevice as obstacle:
        with nullcontext() if "integers outside the int64 range" in str(obstacle) else pytest.raises(GpupipeError):
            on_host(source, backend)
    except GpupipeError:
        with pytest.raises(UnsupportedOnDevice):
            on_device(source, backend)


PIECES = [*'{}:,"\\[]\n\r ', "1", "null", "true", '"a"', '"a":', '"b":"', '{"a":1}\n', '{"b":', ',"b":true}']


def flat(content: str) -> JsonLines | None:
    """Return what lines hold if Python finds each of them to be a flat object, with names that have no escapes."""
    names, n_values, lines = dict[str, None](), 0, [line for line in content.split("\n") if line.strip(" \t\r")]
    for line in lines:
        try:
            pairs = json.loads(re.sub(WORDS, lambda found: found[1] or "1", line), object_pairs_hook=tuple)
        except json.JSONDecodeError:
            return None
        if not isinstance(pairs, tuple) or any(isinstance(value, tuple | list) for _, value in pairs):
            return None
        found = dict(pairs)
        if len(found) < len(pairs) or any(not name or set(name) & set('"\\\n\t\b') for name in found):
            return None
        names.update(dict.fromkeys(found))
        n_values += sum(value is not None for value in found.values())
    return JsonLines(tuple(names), len(lines), n_values)


@examples(200)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=9))
def test_lines_are_plain_where_each_is_a_flat_object(backend: PandasBackend, pieces: list[str]) -> None:
    content = "".join(pieces) + "\n"
    try:
        found = plain_lines(content.encode(), backend)
    except UnsupportedOnDevice:
        found = None
    assert found == flat(content)


class OtherReader(PandasBackend):
    """A backend whose reader loses data."""

    def __init__(self, loses: str) -> None:
        super().__init__()
        self.loses = loses

    def read_json_texts(self, content: BytesIO, columns: Any) -> Any:
        if self.loses == "all":
            raise RuntimeError("unknown error")
        frame = super().read_json_texts(content, columns)
        return frame.iloc[:1] if self.loses == "rows" else frame.assign(x=None).astype("str")


@pytest.mark.parametrize(
    ("loses", "why"),
    [
        ("all", "unknown error"),
        ("rows", "found 1 with"),
        ("values", "2 rows with 2 values from the device reader, found 2 with 1"),
    ],
)
def test_lost_rows_or_values_of_plain_lines_are_detected(tmp_path: Path, loses: str, why: str) -> None:
    with pytest.raises(UnsupportedOnDevice, match=why):
        on_device(source_of(tmp_path, lines("1") + "{}"), OtherReader(loses))
