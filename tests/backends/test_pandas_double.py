"""Tests of the pandas double of a device's dataframe library."""

from __future__ import annotations

from io import BytesIO

from tests.backends.pandas_double import PandasBackend


def test_values_of_json_lines_are_texts_as_written() -> None:
    lines = b'{"a": 1.50, "b": "x\\n\\u00e9"}\n\n{"b": "null", "c": true}\n{"a": -0, "b": null, "c": false}\n{"a": NaN}'
    frame = PandasBackend().read_json_texts(BytesIO(lines), ["b", "a", "c"])
    assert {name: [None if text != text else text for text in frame[name]] for name in frame} == {
        "b": ['"x\n\u00e9"', '"null"', None, None], "a": ["1.50", None, "-0", "NaN"], "c": [None, "true", "false", None]
    }  # fmt: skip
