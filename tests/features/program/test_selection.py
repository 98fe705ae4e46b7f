"""Column selections."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import ConfigError
from gpupipe.features.program.selection import resolve

KINDS = {
    "age": "numeric",
    "usage_1": "numeric",
    "usage_2": "numeric",
    "plan": "categorical",
    "active": "boolean",
    "since": "datetime",
    "note": "text",
    "a_x_b": "categorical",
}


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ("age", ["age"]),
        (["plan", "age"], ["plan", "age"]),
        ("usage_*", ["usage_1", "usage_2"]),
        ("usage_?", ["usage_1", "usage_2"]),
        ("@numeric", ["age", "usage_1", "usage_2"]),
        ("@categorical", ["plan", "a_x_b"]),
        ("@boolean", ["active"]),
        ("@datetime", ["since"]),
        ("@text", ["note"]),
        ("@all", list(KINDS)),
        (["@numeric", "!usage_*"], ["age"]),
        (["!usage_*", "@numeric"], ["age"]),
        (["@all", "!@numeric", "!note"], ["plan", "active", "since", "a_x_b"]),
        (["!@numeric", "!note"], ["plan", "active", "since", "a_x_b"]),
        (["usage_2", "@numeric"], ["usage_2", "age", "usage_1"]),
        ("a_x_b", ["a_x_b"]),
        ("a_*", ["a_x_b"]),
        ([], []),
    ],
)
def test_a_selection_names_columns_in_the_order_in_which_it_names_them(selection, names: list[str]) -> None:
    assert resolve(selection, KINDS) == names


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("agee", "no column 'agee'.*did you mean 'age'"),
        (["age", "!Plan"], "no column 'Plan'.*did you mean 'plan'"),
        ("zzz", "no column 'zzz'.*the columns are age, usage_1"),
        ("used_*", r"no column matches 'used_\*'"),
        ("@numerical", "unknown selector '@numerical'.*did you mean '@numeric'"),
    ],
)
def test_a_selection_without_matches_is_an_error_with_a_hint(selection, message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        resolve(selection, KINDS)


def test_an_error_names_the_op(fit) -> None:
    with pytest.raises(ConfigError, match=r"(?s)no column 'agee'.*features\[0\]\.min_max.*did you mean 'age'"):
        fit({"age": [1.0]}, [{"min_max": "agee"}])


@given(st.dictionaries(st.text(min_size=1), st.sampled_from(["numeric", "text"]), min_size=1))
def test_any_name_selects_itself(kinds: dict[str, str]) -> None:
    for name in kinds:
        assert resolve([name], kinds) == [name]
    assert resolve(list(kinds), kinds) == list(kinds)


def test_a_bin_is_a_category_and_no_longer_a_number(fit) -> None:
    frame = {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}
    made = fit(
        frame, [{"bucketize": {"columns": "x", "bins": 3}}, {"min_max": "@numeric"}, {"one_hot": "@categorical"}]
    )
    assert made.training["y"].tolist() == [0, 0.5, 1]
    assert len([name for name in made.names if name.startswith("x=")]) == 3


def test_a_kind_that_no_column_has_selects_none(fit) -> None:
    assert fit({"x": [1.0, 2.0]}, [{"one_hot": "@categorical"}, {"min_max": "@numeric"}]).names == ["x"]
