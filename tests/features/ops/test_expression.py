"""expression against float64 with the bounds of float32's rounding errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from gpupipe.errors import ConfigError
from gpupipe.features.program.formula import Formula, FormulaError
from tests.examples import examples

NULL = float("nan")
ROUNDING = 2.0**-21  # of one operation: a few last digits of float32
VALUE = st.integers(-40, 40).map(lambda i: i / 8) | st.just(NULL) | st.just(0.0)
ROWS = st.lists(st.tuples(VALUE, VALUE, VALUE), min_size=1, max_size=12)


@dataclass
class Bounded:
    """Values in float64 (NaN is null), bounds of what float32 may differ by, and rows where no bound can be given."""

    value: np.ndarray
    error: np.ndarray
    unsure: np.ndarray

    @classmethod
    def of(cls, value: np.ndarray, error: np.ndarray, *operands: Bounded, unsure: Any = False) -> Bounded:
        unsure = np.logical_or.reduce([np.broadcast_to(unsure, value.shape), *(x.unsure for x in operands)])
        null = np.logical_or.reduce([np.zeros(value.shape, bool), *(np.isnan(x.value) for x in operands)])
        value = np.where(null, NULL, value)
        return cls(
            value,
            error + ROUNDING * np.abs(value),
            unsure | (np.abs(value) > 1e30) | (np.abs(value) < 1e-30) & (value != 0),
        )


def exact(value: np.ndarray) -> Bounded:
    return Bounded(value, np.zeros(value.shape), np.zeros(value.shape, bool))


def add(x: Bounded, y: Bounded) -> Bounded:
    return Bounded.of(x.value + y.value, x.error + y.error, x, y)


def negative(x: Bounded) -> Bounded:
    return Bounded(-x.value, x.error, x.unsure)


def multiply(x: Bounded, y: Bounded) -> Bounded:
    error = np.abs(x.value) * y.error + np.abs(y.value) * x.error + x.error * y.error
    return Bounded.of(x.value * y.value, error, x, y)


def divide(x: Bounded, y: Bounded) -> Bounded:
    value = x.value / np.where(y.value == 0, NULL, y.value)
    error = (x.error + np.abs(value) * y.error) / np.maximum(np.abs(y.value) - y.error, 1e-300)
    return Bounded.of(value, error, x, y, unsure=(y.error > 0) & (np.abs(y.value) <= y.error))


def log(x: Bounded) -> Bounded:
    value = np.log(np.where(x.value <= 0, NULL, x.value))
    error = x.error / np.maximum(x.value - x.error, 1e-300) + ROUNDING
    return Bounded.of(value, error, x, unsure=(x.error > 0) & (np.abs(x.value) <= x.error))


def above(x: Bounded, y: Bounded) -> Bounded:
    error = x.error + y.error
    distance = np.abs(x.value - y.value)
    return Bounded.of(1.0 * (x.value > y.value), 0 * error, x, y, unsure=(error > 0) & (distance <= error))


def equal(x: Bounded, y: Bounded) -> Bounded:
    either = above(x, y), above(y, x)
    return Bounded.of(1 - either[0].value - either[1].value, 0 * x.error, *either)


def isnot(x: Bounded) -> Bounded:
    return Bounded(1 - x.value, x.error, x.unsure)


def where(condition: Bounded, x: Bounded, y: Bounded) -> Bounded:
    value = np.where(condition.value == 1, x.value, y.value)
    return Bounded.of(value, np.maximum(x.error, y.error), condition, x, y)


def greater(x: Bounded, y: Bounded) -> Bounded:
    return Bounded.of(np.maximum(x.value, y.value), x.error + y.error, x, y)


def as_condition(x: Bounded) -> Bounded:
    return isnot(equal(x, exact(np.zeros(x.value.shape))))


Evaluate = Callable[[Mapping[str, np.ndarray]], Bounded]
Node = tuple[str, Evaluate]


def leaf(name: str) -> Node:
    return name, lambda frame: exact(frame[name])


def number(i: int) -> Node:
    return f"({i / 4})" if i % 4 else f"({i // 4})", lambda frame: exact(np.full(len(frame["a"]), i / 4))


def of(text: str, function: Callable[..., Bounded], *nodes: Node) -> Node:
    return text.format(*(t for t, _ in nodes)), lambda frame: function(*(f(frame) for _, f in nodes))


TWO: list[tuple[str, Callable[..., Bounded]]] = [
    ("({} + {})", add),
    ("({} - {})", lambda x, y: add(x, negative(y))),
    ("({} * {})", multiply),
    ("({} / {})", divide),
    ("({} > {})", above),
    ("({} <= {})", lambda x, y: isnot(above(x, y))),
    ("({} < {})", lambda x, y: above(y, x)),
    ("({} >= {})", lambda x, y: isnot(above(y, x))),
    ("({} == {})", equal),
    ("({} != {})", lambda x, y: isnot(equal(x, y))),
    ("max({}, {})", greater),
    ("min({}, {})", lambda x, y: negative(greater(negative(x), negative(y)))),
    ("({} and {})", lambda x, y: multiply(as_condition(x), as_condition(y))),
    ("({} or {})", lambda x, y: isnot(multiply(isnot(as_condition(x)), isnot(as_condition(y))))),
]
ONE: list[tuple[str, Callable[..., Bounded]]] = [
    ("(-{})", negative),
    ("abs({})", lambda x: greater(x, negative(x))),
    ("({} ** 2)", lambda x: multiply(x, x)),
    ("({} ** 3)", lambda x: multiply(multiply(x, x), x)),
    ("({} ** -1)", lambda x: divide(exact(np.ones(x.value.shape)), x)),
    ("log({})", log),
    ("log1p({})", lambda x: log(add(x, exact(np.ones(x.value.shape))))),
    ("(not {})", lambda x: isnot(as_condition(x))),
    ("clip({}, -1, 2.5)", lambda x: Bounded.of(np.clip(x.value, -1, 2.5), x.error, x)),
    ("fillna({}, 0.5)", lambda x: Bounded(np.where(np.isnan(x.value), 0.5, x.value), np.nan_to_num(x.error), x.unsure)),
]
NODES: st.SearchStrategy[Node] = st.recursive(
    st.sampled_from("abc").map(leaf) | st.integers(-12, 12).map(number),
    lambda nodes: (
        st.tuples(st.sampled_from(ONE), nodes).map(lambda found: of(*found[0], found[1]))
        | st.tuples(st.sampled_from(TWO), nodes, nodes).map(lambda found: of(*found[0], *found[1:]))
        | st.tuples(nodes, nodes, nodes).map(
            lambda x: of("where({}, {}, {})", lambda c, x, y: where(as_condition(c), x, y), *x)
        )
    ),
    max_leaves=6,
)
LIMITS = "division by 0|uses no column|logarithm of|exceeds float32|exponent|instructions|intermediate"


@examples(150)
@given(node=NODES, rows=ROWS)
@example(
    node=of("({} / {})", divide, leaf("a"), of("({} + {})", add, number(4), leaf("b"))), rows=[(1, -1, 0), (6, 2, 0)]
)
def test_it_matches_float64(fit, node: Node, rows: list) -> None:
    text, evaluate = node
    frame = pd.DataFrame(rows, columns=list("abc"), dtype=float)
    try:
        Formula(text)
    except FormulaError as error:
        assume(not re.search(LIMITS, str(error)))
        raise
    got = fit(frame, [{"expression": {"x": text}}], view="codes", schema=dict.fromkeys("abc", "float")).training["x"]
    with np.errstate(all="ignore"):
        expected = evaluate({name: frame[name].to_numpy() for name in "abc"})
    sure = ~expected.unsure
    np.testing.assert_array_equal(np.isnan(got)[sure], np.isnan(expected.value)[sure], text)
    known = sure & ~np.isnan(expected.value)
    assert (np.abs(got - expected.value)[known] <= expected.error[known] + 1e-30).all(), text


COLUMNS = {"a": [1.5, -2.0, 0.0, 1e-5, NULL, 3e4], "b": [1.5, 0.25, -0.0, 7.0, 1.0, -5e3]}


@pytest.mark.parametrize("x", [1e-30, 1e-7, 0.3, 0.9999999, 1.0, 1.0000001, 2.0, 1e7, 1e30])
def test_logarithms_of_any_size(fit, x: float) -> None:
    got = fit({"a": np.array([x, 1.0], np.float32)}, [{"expression": {"x": "log(a)"}}], view="codes").training["x"][0]
    assert got == pytest.approx(np.log(np.float64(np.float32(x))), rel=1e-6, abs=2e-7)


@pytest.mark.parametrize("a", [1e-45, 1e-38, 1.0, 1e30, 3e37])
def test_the_least_difference_decides_a_comparison(fit, a: float) -> None:
    """Also of numbers so small that float32 has few digits of them, and so large that stretched they would overflow."""
    lower = np.nextafter(np.float32(a), np.float32(0))
    frame = {"a": np.array([a, lower, a], np.float32), "b": np.array([lower, a, a], np.float32)}
    made = fit(frame, [{"expression": {"more": "a > b", "same": "a == b"}}], view="codes").training
    assert made["more"].tolist() == [1, 0, 0] and made["same"].tolist() == [0, 0, 1]


def test_forms_names_and_lineage(fit) -> None:
    frame = {"monthly charges": [10.0, 20.0], "a-b": [1.0, 4.0], "flag": [True, False]}
    made = fit(
        frame,
        [
            {"expression": "`monthly charges` / `a-b`"},
            {"expression": ["'a-b' * 2", "flag + 1"]},
            {"expression": {"x": "`monthly charges` - `a-b`", "y": "x * 10"}},
        ],
        view="codes",
    )
    assert made.names[2:] == ["flag", "`monthly charges` / `a-b`", "'a-b' * 2", "flag + 1", "x", "y"]
    assert made.training["`monthly charges` / `a-b`"].tolist() == [10.0, 5.0]
    assert made.training["flag + 1"].tolist() == [2.0, 1.0]
    assert made.training["y"].tolist() == [90.0, 160.0]
    assert made.features.lineage["y"] == ["monthly charges", "a-b"]


def test_it_reads_results_of_earlier_ops_and_isnull_reads_the_input(fit) -> None:
    frame = {"a": [1.0, None, 3.0], "city": ["x", None, "y"], "at": pd.to_datetime(["2024-01-01", "NaT", "NaT"])}
    ops = [
        {"impute": {"columns": "a", "strategy": "constant", "value": 5}},
        {"expression": {"x": "a * 2", "no_a": "isnull(a)", "no_city": "isnull(city)", "no_at": "isnull(at)"}},
    ]
    made = fit(frame, ops, view="codes").training
    assert made["x"].tolist() == [2.0, 10.0, 6.0]
    assert made["no_a"].tolist() == [0, 1, 0] == made["no_city"].tolist()
    assert made["no_at"].tolist() == [0, 1, 1]


def test_a_difference_of_large_numbers_keeps_its_digits(fit) -> None:
    seconds = 1.7e9 + np.arange(50)
    made = fit(
        {"a": seconds + 0.25, "b": seconds}, [{"expression": {"x": "a - b", "y": "a - 1700000000"}}], view="codes"
    )
    assert made.training["x"].tolist() == [0.25] * 50
    assert made.training["y"].tolist() == (np.arange(50) + 0.25).tolist()


@pytest.mark.parametrize("text", ["x * 8e37", "1 / x", "log(x)", "-x", "fillna(x, 100)"])
def test_dense_holds_no_null_and_later_ops_see_the_column(fit, text: str) -> None:
    made = fit({"x": [1.0, 2.0, 3.0, 4.0, None]}, [{"expression": {"new": text}}, {"standardize": "new"}])
    served = made.serve({"x": [5e3, 0.0, -1.0, None]})
    assert np.isfinite(served.to_numpy()).all() and np.isfinite(made.training.to_numpy()).all()
    known = fit({"x": [1.0, 2.0, 3.0, 4.0, None]}, [{"expression": {"new": text}}], view="codes").training["new"]
    known = known.astype(float)
    scaled = (known - known.mean()) / known.std(ddof=0)
    np.testing.assert_allclose(made.training["new"][known.notna()], scaled[known.notna()], atol=1e-5)


def test_the_median_of_a_column_with_its_sign_changed(fit) -> None:
    """Nulls of `log1p(-x)` are imputed by its own median, since the median of x has no logarithm."""
    frame = {"x": [-3.0, -1.0, 5.0, 6.0, 7.0]}
    made = fit(frame, [{"expression": {"new": "log1p(-x)"}}, {"clip": {"columns": "new", "upper": 9}}]).training["new"]
    np.testing.assert_allclose(made, np.log([4, 2] + [np.sqrt(8)] * 3), rtol=1e-6)


def test_nesting_that_another_order_makes_shallow_needs_few_registers(fit) -> None:
    text = "a * (b + (" * 8 + "a * b" + "))" * 8
    a, b = 0.5, 1.25
    got = fit({"a": [a, 0.0], "b": [b, 0.0]}, [{"expression": {"x": text}}], view="codes").training["x"][0]
    assert got == pytest.approx(eval(text), rel=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spend / exp(visits)", r"the function 'exp' is not supported \(character 9 of .*one of abs, clip"),
        ("spend % 2", "the operator % is not supported"),
        ("(a > 1) & (b > 1)", r"the operator & \(write and\)"),
        ("a.b", "column name in backticks: `a.b`"),
        ("a if b else c", "where"),
        ("a[0]", r"\[ \] is not supported"),
        ("a ** 0.5", "integer from 1 to 8"),
        ("a ** b", "this exponent"),
        ("a / (1 - 1)", "division by 0"),
        ("log(0) * a", "logarithm of 0"),
        ("1e39 * a", "exceeds float32"),
        ("'é' * 10 ** 2 ** 9", "this exponent"),
        ("1 + 2", "uses no column: it is 3"),
        ("a +", "is not an expression"),
        ("", "is not an expression"),
        ("class + 1", "backticks"),
        ("a\0", "null bytes"),
        ("clip(a, 3, 2)", "the lower bound 3 is above"),
        ("clip(a, b, 2)", "all arguments except x must be numbers"),
        ("clip(a, low=1, high=2)", r"expected clip\(x, low, high\)"),
        ("isnull(a + b)", "takes a column name"),
        ("True * a", "True is not a number"),
        ("a in b", "in is not supported"),
        ("__import__('os').system('true')", "function"),
        ("(((a ** 8) ** 8) ** 8) ** 8", "instructions"),
        ("(" * 300 + "a" + ")" * 300, "nested"),
        ("-" * 900 + "a", "nested"),
        ("a" * 1001, "1,001 characters"),
        ("1/(a/(1/(a/(1/(a/(1/(a/(1/(a+b)))))))))", "8 registers"),
    ],
)
def test_text_outside_the_grammar_is_rejected_when_the_configuration_is_read(text: str, message: str) -> None:
    with pytest.raises(FormulaError, match=message) as raised:
        Formula(text)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("spendd * 2", "no column 'spendd'(?s:.*)did you mean 'spend'"),
        ("capital + 1", r"(?s)no column 'capital'.*backticks: `capital-gain`"),
        ("at - 1", r"(?s)'at' is datetime.*arithmetic"),
        ("city * 2", "numeric columns; 'city' is categorical"),
        ({"spend": "spend * 2"}, "column 'spend' already exists"),
    ],
)
def test_wrong_columns_are_rejected(fit, settings: object, message: str) -> None:
    frame = {
        "spend": [1.0, 2.0],
        "capital-gain": [1.0, 2.0],
        "city": ["a", "b"],
        "at": pd.to_datetime(["2024", "2025"]),
    }
    with pytest.raises(ConfigError, match=message):
        fit(frame, [{"expression": settings}], view="codes")


@pytest.mark.parametrize("settings", [{}, {"": "a"}, {"x": 3}, [], 3])
def test_settings_without_an_expression_are_rejected(fit, settings: object) -> None:
    with pytest.raises(ValidationError):
        fit({"a": [1.0]}, [{"expression": settings}])
