"""Translation of pydantic's errors into located messages, on small example settings."""

from __future__ import annotations

from datetime import date
from typing import Literal

import pytest
from pydantic import Field, ValidationError, field_validator

from gpupipe.config.composer import Composer
from gpupipe.config.problems import problems_of
from gpupipe.settings import Settings


class Inner(Settings):
    """A section."""

    size: int = Field(default=1, ge=1, le=9)
    share: float = Field(default=0.5, gt=0, lt=1)
    kind: Literal["median", "mean"] = "mean"
    edges: list[float] | Literal["auto"] = "auto"
    flag: bool = True
    day: date | None = None
    either: int | float = 0

    @field_validator("size")
    @classmethod
    def _is_not_seven(cls, size: int) -> int:
        if size == 7:
            raise ValueError("seven is taken")
        if size == 8:
            raise ValueError("eight is\n  taken too")
        return size


class Outer(Settings):
    """A file."""

    inner: Inner
    others: dict[str, Inner] = Field(default_factory=dict)
    names: tuple[str, ...] = ()


def problems(text: str) -> list[str]:
    root = Composer({}, problems=[]).file(text, "c.yaml")
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(root.plain())
    return [str(problem) for problem in problems_of(caught.value, root, Outer)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("size: big", "inner.size: expected a whole number, got 'big'"),
        ("size: 1.5", "inner.size: expected a whole number, got 1.5"),
        ("size: 0", "inner.size: expected at least 1, got 0"),
        ("size: 10", "inner.size: expected at most 9, got 10"),
        ("size: 7", "inner.size: seven is taken"),
        ("size:", "inner.size: expected a whole number, got nothing"),
        ("share: 1", "inner.share: expected less than 1, got 1"),
        ("share: {a: 1}", "inner.share: expected a number, got a mapping with a"),
        ("kind: medain", "inner.kind: expected 'median' or 'mean', got 'medain'; did you mean 'median'?"),
        ("flag: maybe", "inner.flag: expected true or false, got 'maybe'"),
        ("either: much", "inner.either: expected a number, got 'much'"),
        ("size: 8", "inner.size: eight is; taken too"),
        ("edges: auot", "inner.edges: expected a list or 'auto', got 'auot'; did you mean 'auto'?"),
        ("day: soon", "inner.day: expected a date (2024-12-31), got 'soon'"),
        ("sise: 3", "inner.sise: unknown key; did you mean 'size'?"),
        ("zzz: 3", "inner.zzz: unknown key; expected one of size, share, kind, edges, flag, day, either"),
    ],
)
def test_a_message_has_the_expected_and_the_found_value(line: str, message: str) -> None:
    (problem,) = problems(f"inner:\n  {line}\n")
    assert problem.partition(": ")[2] == message


def test_the_form_closest_to_the_value_is_reported() -> None:
    assert problems("inner:\n  edges: [1, x, 3, y]\n") == [
        "c.yaml:2:14: inner.edges[1]: expected a number, got 'x'",
        "c.yaml:2:20: inner.edges[3]: expected a number, got 'y'",
    ]


def test_a_wrong_key_is_located_at_the_key_and_a_wrong_value_at_the_value() -> None:
    assert problems("inner: {size: x, sise: 1}\n") == [
        "c.yaml:1:15: inner.size: expected a whole number, got 'x'",
        "c.yaml:1:18: inner.sise: unknown key; did you mean 'size'?",
    ]


def test_a_missing_section_is_reported_at_the_file() -> None:
    assert problems("names: [a]\n") == ["c.yaml:1:1: inner: is required"]


def test_errors_in_named_sections_and_lists_have_locations() -> None:
    assert problems("inner: {}\nothers:\n  a: {}\n  b: {knid: mean}\nnames: [x, 5]\n") == [
        "c.yaml:4:7: others.b.knid: unknown key; did you mean 'kind'?",
        "c.yaml:5:12: names[1]: expected text, got 5",
    ]


def test_a_section_that_is_not_a_mapping_is_reported() -> None:
    assert problems("inner: 3\n") == ["c.yaml:1:8: inner: expected a mapping (key: value), got 3"]


def test_long_values_are_cut() -> None:
    (problem,) = problems(f"inner: {{size: {'x' * 500}}}\n")
    assert len(problem) < 150
