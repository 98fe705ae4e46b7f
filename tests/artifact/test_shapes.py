"""Shapes of JSON documents, compared with jsonschema's idea of types: exact types, no coercion, any depth."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpupipe.artifact.untrusted.shapes import check_shape

DEEP: Any = "end"
for _ in range(100_000):
    DEEP = [DEEP]
VALUES: dict[str, Any] = {
    "null": None, "true": True, "zero": 0, "one": 1, "half": 0.5, "empty": "", "text": "a", "list": [], "texts": ["a"],
    "numbers": [1], "object": {}, "named": {"a": "a"}, "huge": 10**400, "infinite": float("inf"), "nan": float("nan"),
    "deep": DEEP,
}  # fmt: skip
SHAPES: list[tuple[Any, str]] = [
    (None, "null"), (bool, "true"), (int, "zero one huge"), (float, "zero one half"), (str, "empty text"),
    ({"a", "b"}, "text"), (range(1, 3), "one"), ((str, None), "null empty text"), ([str], "list texts"),
    ([float], "list numbers"), ([object], "list texts numbers deep"), ({"a": str}, "named"),
    ({"a?": str}, "object named"), ({...: object}, "object named"), ({...: int}, "object"),
    ((None, {"a": str}), "null named"), (object, " ".join(VALUES)), ((int, [str]), "zero one list texts huge"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "accepted"), SHAPES)
def test_only_values_of_the_type_are_accepted(shape: Any, accepted: str) -> None:
    found = []
    for name, value in VALUES.items():
        try:
            check_shape(value, shape)
            found.append(name)
        except ValueError as error:
            assert len(str(error)) < 200
    assert found == accepted.split()


def test_a_function_returns_the_shape_of_a_value() -> None:
    def by_kind(value: Any) -> Any:
        return {"kind": str, "size": int} if value.get("kind") == "box" else {"kind": {"dot"}}

    check_shape([{"kind": "box", "size": 1}, {"kind": "dot"}], [by_kind])
    with pytest.raises(ValueError, match=r"^\[0\]\.size: expected an integer; the entry is missing$"):
        check_shape([{"kind": "box"}], [by_kind])
    with pytest.raises(ValueError, match=r"^\[0\]\.size: unknown entry; expected kind$"):
        check_shape([{"kind": "dot", "size": 1}], [by_kind])


MESSAGES: list[tuple[Any, Any, str]] = [
    ({"a": [{"b": True}]}, {"a": [{"b": int}]}, "a[0].b: expected an integer; found true"),
    ({"a": None}, {"a": (str, float)}, "a: expected text or a finite number; found null"),
    ({"a": "y"}, {"a": {"z", "x"}}, "a: expected one of x, z; found 'y'"),
    ({"a": 1}, {"a": {"x"}}, "a: expected x; found 1"),
    ({"a": 7000}, {"a": range(5001)}, "a: expected an integer in [0, 5,000]; found 7000"),
    ({}, {"a": [str]}, "a: expected a list; the entry is missing"),
    ({}, {"a": lambda value: {"b": str}}, "a: expected an object; the entry is missing"),
    ({"b": 1}, {"a?": [str]}, "b: unknown entry; expected a"),
    ([[]], [{...: str}], "[0]: expected an object; found a list with 0 entries"),
    ("é" * 90, {...: object}, f"the document: expected an object; found '{'é' * 39}..."),
    ({"k" * 90: 1}, {...: str}, f"{'k' * 40}: expected text; found 1"),
]


@pytest.mark.parametrize(("value", "shape", "message"), MESSAGES)
def test_the_message_has_entry_expected_and_found(value: Any, shape: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_shape(value, shape)


def test_a_recursive_shape_ends_with_the_document() -> None:
    node: dict[Any, Any] = {"name": str}
    node["parts?"] = [node]
    check_shape({"name": "a", "parts": [{"name": "b", "parts": []}]}, node)
    with pytest.raises(ValueError, match=r"^parts\[1\]\.name: expected text; found 2$"):
        check_shape({"name": "a", "parts": [{"name": "b"}, {"name": 2}]}, node)
