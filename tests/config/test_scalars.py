"""Plain YAML scalars, by the rules of YAML 1.2."""

from __future__ import annotations

import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpupipe.config.scalars import Dumper, Loader, construct, resolve


@pytest.mark.parametrize(
    "word", ["no", "Yes", "on", "off", "NO", "12:30", "2024-12-31", "1.2.3", "0.1.0", "y", "1e", "."]
)
def test_words_that_yaml_1_1_would_change_stay_text(word: str) -> None:
    assert resolve(word) == word


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        (".5", 0.5),
        ("3.", 3.0),
        ("-2.5e+3", -2500.0),
        ("1_000_000", 1_000_000),
        ("010", 10),
        ("0o17", 15),
        ("0xff", 255),
        ("-7", -7),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("-.inf", -math.inf),
    ],
)
def test_numbers_booleans_and_nulls_follow_yaml_1_2(word: str, value: object) -> None:
    assert resolve(word) == value
    assert type(resolve(word)) is type(value)


def composed(dumped: str) -> list[yaml.ScalarNode]:
    """Return the nodes of a list in a document."""
    node = yaml.compose(dumped, Loader=Loader)
    assert node is not None
    return node.value


def test_not_a_number_can_be_written() -> None:
    assert math.isnan(resolve(".nan"))  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.text(alphabet="0123456789abcdefxo_-+.eEinfaIN:~ yYtrueslnN#,[]{}'\"$é\n\t", max_size=12))
def test_any_text_that_is_dumped_is_read_back_by_us_and_by_yaml_1_1(text: str) -> None:
    dumped = yaml.dump([text], Dumper=Dumper)
    (node,) = composed(dumped)
    assert construct(node.tag, node.value) == text
    assert yaml.safe_load(dumped) == [text]


@settings(deadline=None)
@given(st.floats(allow_nan=False) | st.integers() | st.booleans() | st.none())
def test_any_value_that_is_dumped_is_read_back(value: object) -> None:
    (node,) = composed(yaml.dump([value], Dumper=Dumper))
    assert construct(node.tag, node.value) == value
