"""Substitution of ${NAME} in a text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.config.environment import InterpolatedText, escape, interpolate


def test_a_variable_is_replaced_anywhere_in_a_text() -> None:
    assert interpolate("a/${X}/b-${Y}", {"X": "1", "Y": "2"}).text == "a/1/b-2"


@pytest.mark.parametrize("environment", [{}, {"X": ""}])
def test_the_default_is_used_if_the_variable_is_unset_or_empty(environment: dict[str, str]) -> None:
    assert interpolate("${X:a:b}", environment) == InterpolatedText("a:b", "a:b", "a:b")
    assert interpolate("<${X:}>", environment) == InterpolatedText("<>", "<>", "<>")


def test_the_variable_takes_precedence_over_the_default() -> None:
    assert interpolate("${X:default}", {"X": "set"}).text == "set"


def test_an_unset_variable_is_a_problem_with_a_fix() -> None:
    assert interpolate("${NOPE}/x", {}).problems == [
        "the environment variable NOPE is not set; set it, or add a default: ${NOPE:default}"
    ]


def test_the_variable_of_the_public_tables_refers_to_their_documentation() -> None:
    (problem,) = interpolate("${GPUPIPE_DATA}/adult.csv", {}).problems
    assert "GPUPIPE_DATA is not set" in problem
    assert "README" in problem


@pytest.mark.parametrize("text", ["${}", "${9}", "${a b}", "${open", "${a-b}"])
def test_an_invalid_reference_is_a_problem(text: str) -> None:
    (problem,) = interpolate(text, {}).problems
    assert "${NAME}" in problem


def test_a_value_is_not_interpolated_a_second_time() -> None:
    assert interpolate("${X}", {"X": "${Y}", "Y": "1"}).text == "${Y}"


@settings(deadline=None)
@given(st.text(alphabet="${}aX:", max_size=12))
def test_an_escaped_text_is_restored(text: str) -> None:
    assert interpolate(escape(text), {"a": "wrong", "X": "wrong"}) == InterpolatedText(text, escape(text), text)


def test_a_value_is_written_as_its_name_unless_it_may_be_seen() -> None:
    environment = {"KEY": "s3cr3t", "HOST": "store", "GPUPIPE_DATA": "/data"}
    found = interpolate("s3://${KEY}@${HOST!}/$${x}${GPUPIPE_DATA}${NO:a}", environment)
    assert found.text == "s3://s3cr3t@store/${x}/dataa"
    assert found.written == "s3://${KEY}@store/$${x}/dataa"
    assert found.shown == "s3://${KEY}@store/${x}/dataa"
    assert found.secrets == {"KEY": "s3cr3t"}
    assert interpolate("${NO!:b}", {}).text == "b"
