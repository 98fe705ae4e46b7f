"""Rules on raw rows, compared with the same rows as a table."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.backends import choose
from gpupipe.errors import ConfigError, DataError, RowError
from gpupipe.inference.scorer.rare_values import encode_by_table
from gpupipe.io.source_reader import plain_arrow
from gpupipe.rules import ColumnRules
from gpupipe.rules.enforcement import enforce_served
from gpupipe.rules.model_rules import ServedRules
from gpupipe.rules.row_rules import RowRules
from gpupipe.table.frames import rows_to_arrow
from gpupipe.table.schema import DeclaredColumn, Kind
from tests.raw_values import VALUES

BACKEND = choose("cpu")
BOUNDS = [-1e39, -128.0, -1.5, 0.0, 0.1, 1.00000001, 3.0, 2.0**24 + 1, 2.0**53, 1e18, 1e39]
DATES = ["1969-12-31", "1970-01-01T00:00:05", "2020-01-01", "2020-02-29T12:30:00", "2262-01-01"]
LABELS: list[Any] = [
    0,
    1,
    0.1,
    1.00000001,
    2.5,
    2**24 + 1,
    1e16,
    "a",
    "B",
    "no",
    "1",
    "true",
    True,
    False,
    "2020-01-01",
]
FORMATS = [None, "%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%d/%m/%Y", "s", "ms", "ns"]


DECLARED = [DeclaredColumn(kind) for kind in ("numeric", "boolean", "categorical", "text")]
DECLARED += [DeclaredColumn("datetime", time_format=form) for form in FORMATS]
RULES: dict[str, list[str]] = {
    "numeric": ["dtype", "nulls", "range", "set", "unique"],
    "boolean": ["dtype", "nulls", "set", "unique"],
    "datetime": ["nulls", "times", "unique"],
    "categorical": ["dtype", "nulls", "set", "regex", "unique"],
}
RULES["text"] = RULES["categorical"]
DTYPES = {
    "numeric": ["int", "int8", "uint16", "float"],
    "boolean": ["bool"],
    "categorical": ["category", "text"],
    "text": ["category", "text"],
}
ANY_RULE = ["dtype", "nulls", "range", "times", "set", "regex", "unique"]


@st.composite
def rules_of(draw: st.DrawFn, kind: str) -> ColumnRules:
    """Return rules for a column, now and then for columns of another kind."""
    is_fit = draw(st.integers(0, 5)) > 0
    name = draw(st.sampled_from(RULES[kind] if is_fit else ANY_RULE))
    low, high = sorted(draw(st.tuples(*[st.sampled_from(BOUNDS if name != "times" else DATES)] * 2)))
    dtypes = DTYPES.get(kind, []) if is_fit else ["int", "bool", "category", "date"]
    settings: dict[str, dict[str, Any]] = {
        "dtype": {"dtype": draw(st.sampled_from(dtypes or ["date"]))},
        "nulls": {},
        "range": {"range": draw(st.sampled_from([(low, high), (None, high), (low, None)]))},
        "set": {"set": tuple(draw(st.lists(st.sampled_from(LABELS), min_size=1, max_size=8)))},
        "regex": {"regex": draw(st.sampled_from(["[a-z]+", ".*", "", "a|ab", r"\d+(\.\d+)?", r"(?i)b\z"]))},
        "unique": {"unique": True},
    }
    settings["times"] = settings["range"]
    is_nullable = name != "nulls" and draw(st.booleans())
    action = draw(st.sampled_from(["refuse", "warn"]))
    return ColumnRules.model_validate({**settings[name], "nulls": is_nullable, "otherwise": action})


@st.composite
def served_rules(draw: st.DrawFn) -> list[ServedRules]:
    """Return up to two sets of rules of a column."""
    declared = draw(st.sampled_from(DECLARED))
    return [
        ServedRules("x", declared, each) for each in draw(st.lists(rules_of(declared.kind), min_size=1, max_size=2))
    ]


def outcome_of_table(
    rows: list[dict[str, Any]], served: Sequence[ServedRules], names: Sequence[str] = ("x",)
) -> list[str] | str:
    """Return the warnings of the rows as a table, or "refused"."""
    return outcome(lambda rows: enforce_served(plain_arrow(rows_to_arrow(rows, names)), served, BACKEND, "rows"), rows)


def outcome(check: Callable[[list[dict[str, Any]]], list[str]], rows: list[dict[str, Any]]) -> list[str] | str:
    try:
        return check(rows)
    except ConfigError:
        return "not able"
    except (DataError, pa.ArrowException):
        return "refused"


def outcome_of_rows(rows: list[dict[str, Any]], served: Sequence[ServedRules]) -> list[str] | str:
    return outcome(lambda rows: RowRules(served, encode_by_table).check(rows), rows)


OF_KIND: dict[str, list[dict[str, Any]]] = {
    "numeric": [
        *({"dtype": dtype} for dtype in ("int", "int8", "uint16", "uint32", "float", "bool", "text")),
        *(
            {"range": bounds}
            for bounds in [
                (0.1, 3),
                (None, 1.00000001),
                (5_000_000.1, None),
                (2**24 + 1, None),
                (-1.5, 1e39),
                (-1e39, 0.1),
            ]
        ),
        *({"range": bounds} for bounds in [(-1e39, 0.1), (None, 2.0**125), (2**53, 2**62), ("2020-01-01", None)]),
        *({"set": labels} for labels in [(0.1, 2, "x"), (True, 1e16, 2**24 + 1), (1.00000001, "3", -129)]),
        *({"range": bounds, "nulls": False} for bounds in [(0, None), (None, 1e39)]),
        {"set": (0, 1e300, 1), "nulls": False},
        {"dtype": "int64", "nulls": False},
    ],
    "boolean": [{"dtype": "bool"}, {"set": ("yes",)}, {"set": (0, "x")}, {"dtype": "float"}, {"dtype": "text"}],
    "datetime": [
        *({"range": bounds} for bounds in [("2020-01-01", None), (None, "2020-01-01"), ("1970-01-01", "2020-03-01")]),
        {"range": ("1970-01-01T00:00:05", "9999-12-31"), "nulls": False},
        {"dtype": "date"},
        {"range": (0, 1)},
        {"dtype": "bool"},
    ],
    "text": [
        *({"set": labels} for labels in [("a", "ab", ""), (1, 0.1, "true", 1e16), ("é", "2020-01-01")]),
        *({"regex": regex} for regex in ["[a-z]+", ".*", "", "a|ab", r"\d+(\.\d+)?", r"(?i)b"]),
        *({"dtype": dtype} for dtype in ("text", "float", "bool", "date")),
        {"set": ("a", "1", "B"), "regex": "[a-z]+", "nulls": False},
        {"range": (0, 1)},
    ],
}
OF_KIND["categorical"] = OF_KIND["text"]


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: f"{declared.kind}-{declared.time_format}")
def test_each_value_violates_the_rules_that_it_violates_in_a_table(declared: DeclaredColumn) -> None:
    """Each rule has a separate column, and they only warn, so that one table compares all of them."""
    given = [{"nulls": False}, {"unique": True}, *OF_KIND[declared.kind]]
    rules = [ColumnRules.model_validate({**each, "otherwise": "warn"}) for each in given]
    served = [ServedRules(f"x{i}", declared, each) for i, each in enumerate(rules)]
    compiled = RowRules(served, encode_by_table)
    alone = {each.column: RowRules([each], encode_by_table) for each in served}
    differ = []
    for value in VALUES:
        row = dict.fromkeys(alone, value)
        expected = outcome_of_table([row], served, list(alone))
        found = [outcome(compiled.check, [row])]
        if expected == "refused":  # of the wrong kind, whatever the rule
            found += [outcome(rules.check, [{name: value}]) for name, rules in alone.items()]
        differ += [(value, each, expected) for each in found if each != expected]
    assert not differ


@pytest.mark.parametrize("otherwise", ["refuse", "warn"])
@pytest.mark.parametrize("kind", ["numeric", "boolean", "categorical", "text"])
def test_unique_compares_rows_as_in_a_table(kind: Kind, otherwise: str) -> None:
    rules = ColumnRules.model_validate({"unique": True, "otherwise": otherwise})
    served = [ServedRules("x", DeclaredColumn(kind), rules)]
    columns: list[list[Any]] = [
        [1, 1, 2], [1, 2, None, None], [0.0, -0.0], [True, None, True], [2**53 + 1, 2**53], [2**53 + 1, 2**53 + 2],
        [1e16, 1e16], ["1", "1.0", " 1"], ["9007199254740993"] * 2, ["yes", "no"], ["yes", "true"], ["a", "A", ""],
    ]  # fmt: skip
    for column in columns:
        rows = [{"x": value} for value in column]
        assert outcome_of_rows(rows, served) == outcome_of_table(rows, served), column


@given(served=served_rules(), value=st.one_of(st.sampled_from(VALUES), st.floats(-5, 5), st.integers(-300, 300)))
def test_a_row_is_accepted_as_a_table_of_it(served: list[ServedRules], value: Any) -> None:
    found, expected = outcome_of_rows([{"x": value}], served), outcome_of_table([{"x": value}], served)
    assert found == expected or (found == "not able" and expected == "refused")  # reported before any row


SIMILAR: dict[str, Any] = {  # values that Arrow converts to one type, whose cells do not depend on each other
    "integers": st.integers(-5, 5),
    "floats": st.sampled_from([0.1, 0.5, 1.0, 3.0, 1e16, 1e300, np.nan, -2.5]),
    "singles": st.sampled_from([np.float32(0.1), np.float32(3), np.float32(-2.5)]),
    "large": st.sampled_from([2**53, 2**53 + 1, 2**60]),
    "texts": st.sampled_from(["a", "B", "ab", "no", "1", "0.1", "", "2020-01-01", "1999-01-01"]),
    "booleans": st.booleans(),
    "times": st.sampled_from([datetime(2020, 1, 1), datetime(2020, 2, 29, 12, 30, 0, 5), datetime(1960, 1, 1)]),
}


@given(served=served_rules(), data=st.data())
def test_rows_give_the_warnings_of_a_table(served: list[ServedRules], data: st.DataObject) -> None:
    like = SIMILAR[data.draw(st.sampled_from(list(SIMILAR)))]
    column = data.draw(st.lists(st.one_of(like, st.none()), min_size=2, max_size=5))
    rows = [{"x": value} for value in column]
    found, expected = outcome_of_rows(rows, served), outcome_of_table(rows, served)
    assert found == expected or (found == "not able" and expected == "refused")
    if found == "refused" and not any(each.rules.unique for each in served):
        with pytest.raises(RowError) as raised:
            RowRules(served, encode_by_table).check(rows)
        refused = [position for position, row in enumerate(rows) if outcome_of_table([row], served) == "refused"]
        assert sorted({problem.row for problem in raised.value.problems}) == refused


def test_all_wrong_cells_are_listed() -> None:
    served = [
        ServedRules("tenure", DeclaredColumn("numeric"), ColumnRules(range=(0, 72), nulls=False)),
        ServedRules("plan", DeclaredColumn("categorical"), ColumnRules(set=("monthly", "yearly"))),
        ServedRules("plan", DeclaredColumn("categorical"), ColumnRules(nulls=False, otherwise="warn")),
    ]
    rows: list[dict[str, Any]] = [
        {"tenure": 3, "plan": "monthly"},
        {"tenure": "x", "plan": None},
        {"plan": "weekly"},  # a column that is absent is reported by the encoder
        {"tenure": None, "plan": 1},
        {"tenure": np.float32(-0.5), "plan": "yearly"},
    ]
    with pytest.raises(RowError) as raised:
        RowRules(served).check(rows)
    assert [(each.row, each.column, each.value, each.rule) for each in raised.value.problems] == [
        (1, "tenure", "'x'", "a number"),
        (2, "plan", "'weekly'", "set: [monthly, yearly]"),
        (3, "tenure", "null", "nulls: false"),
        (3, "plan", "1", "set: [monthly, yearly]"),
        (4, "tenure", "-0.5", "range: [0, 72]"),
    ]


def test_rules_load_no_library_of_tables() -> None:
    """Only ``regex`` needs Arrow, and raises a ConfigError where it is not installed."""
    code = """
import sys
sys.modules.update(dict.fromkeys(("pyarrow", "pandas", "numba", "sklearn", "scipy")))
from gpupipe.errors import ConfigError, RowError
from gpupipe.rules.model_rules import ServedRules
from gpupipe.rules.row_rules import RowRules

def record(kind, rules, form=None):
    return ServedRules.from_json({"column": kind, "kind": kind, "format": form, "rules": rules})

served = [
    record("numeric", {"range": [0, 1], "unique": True}),
    record("datetime", {"range": ["2020-01-01", None]}, "%Y-%m-%d"),
    record("text", {"set": ["a"], "otherwise": "warn"}),
]
rules = RowRules(served)
print(rules.check([{"numeric": "0.5", "datetime": "2020-01-02", "text": "b"}, {"numeric": 1}]))
try:
    rules.check([{"numeric": 1j, "datetime": 3, "text": b"a"}])
except RowError as error:
    print([problem.rule for problem in error.problems])
try:
    RowRules([record("text", {"regex": "a"})])
except ConfigError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == [
        "[\"text: 1 row violates set: [a]: row 0: 'b'\"]",
        "['a number as a plain Python or NumPy value, not complex', \"a time in the format '%Y-%m-%d'\"]",
        "a data rule with `regex` needs pyarrow, which is not installed",
        "  to do: pip install pyarrow",
    ], run.stderr
