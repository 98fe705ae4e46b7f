"""Rule violations, compared with pandas and Python on the same table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gpupipe.backends import Backend, choose
from gpupipe.errors import ConfigError, SchemaError
from gpupipe.rules import ColumnRules, RuleViolation, describe_violations, predicate
from gpupipe.rules.check import find_violations
from gpupipe.table.encode import encode
from gpupipe.table.schema import declare

N = 3_000
ORG = r"user\d+@x\.org"


@pytest.fixture(scope="module")
def backend() -> Backend:
    return choose("cpu")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)

    def some_null(values: Any) -> Any:
        return pd.Series(values, dtype=object).where(rng.random(N) > 0.05, None)

    return pd.DataFrame(
        {
            "number": some_null(rng.normal(50, 20, N).round(1)).astype(float),
            "single": rng.normal(0, 1, N).round(1).astype(np.float32),
            "whole": rng.integers(-5, 400, N),
            "category": some_null(rng.choice(["a", "b", "c", "Ä"], N)),
            "text": some_null([f"user{i}@x{'.org' if i % 7 else ''}" for i in rng.integers(0, 2 * N, N)]),
            "time": pd.Series(pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"))
            .where(rng.random(N) > 0.05)
            .astype("datetime64[us]"),
            "flag": some_null(rng.random(N) > 0.5),
        }
    )  # fmt: skip


def judged(
    backend: Backend, columns: Any, declared: Mapping[str, str] | None = None, **rules: Any
) -> list[RuleViolation]:
    arrow = pa.Table.from_pandas(columns, preserve_index=False) if isinstance(columns, pd.DataFrame) else columns
    table = encode(arrow, backend, {name: declare(kind) for name, kind in (declared or {}).items()})
    return find_violations(table, {name: [ColumnRules(**each)] for name, each in rules.items()}, backend)


Reference = Callable[[pd.Series], Any]
CASES: list[tuple[str, dict[str, Any], Reference]] = [
    ("number", {"range": [20, 80]}, lambda c: (c < 20) | (c > 80)),
    ("number", {"range": [None, 80.5]}, lambda c: c > 80.5),
    ("number", {"nulls": False}, lambda c: c.isna()),
    ("number", {"set": [50, 50.1, "49.9"]}, lambda c: c.notna() & ~c.isin([50, 50.1, 49.9])),
    ("number", {"unique": True}, lambda c: c.notna() & c.duplicated(keep=False)),
    ("number", {"dtype": "int"}, lambda c: c.notna() & (c != c.round())),
    ("single", {"range": [-0.1, 0.1]}, lambda c: (c < np.float32(-0.1)) | (c > np.float32(0.1))),
    ("single", {"set": [0.1, 0.2]}, lambda c: ~c.isin(np.array([0.1, 0.2], np.float32))),
    ("whole", {"dtype": "uint8"}, lambda c: (c < 0) | (c > 255)),
    ("whole", {"range": [0.5, 399]}, lambda c: (c < 0.5) | (c > 399)),
    ("category", {"set": ["a", "Ä"]}, lambda c: c.notna() & ~c.isin(["a", "Ä"])),
    ("category", {"regex": "[a-b]"}, lambda c: c.notna() & ~c.isin(["a", "b"])),
    ("category", {"nulls": False}, lambda c: c.isna()),
    ("text", {"regex": ORG}, lambda c: [v is not None and not re.fullmatch(ORG, v) for v in c]),
    ("text", {"unique": True}, lambda c: c.notna() & c.duplicated(keep=False)),
    ("text", {"nulls": False}, lambda c: c.isna()),
    ("time", {"range": ["2020-03-01", "2021-01-01T00:00:00"]}, lambda c: (c < "2020-03-01") | (c > "2021-01-01")),
    ("time", {"unique": True}, lambda c: c.notna() & c.duplicated(keep=False)),
    ("time", {"nulls": False}, lambda c: c.isna()),
    ("flag", {"set": [True]}, lambda c: c.notna() & (c == False)),  # noqa: E712  (of objects)
    ("flag", {"nulls": False}, lambda c: c.isna()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "rules", "against"), CASES, ids=[f"{n}-{next(iter(r))}" for n, r, _ in CASES])
@pytest.mark.parametrize("block", [64, 1 << 17])
def test_the_rows_against_a_rule_are_those_that_pandas_finds(
    backend: Backend, frame: pd.DataFrame, name: str, rules: Any, against: Any, block: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(predicate, "BLOCK", block)
    expected = np.flatnonzero(np.asarray(against(frame[name]), bool))
    (broken,) = judged(backend, frame[[name]], {"text": "text"} if name == "text" else None, **{name: rules})
    assert (broken.n_rows, list(broken.rows)) == (len(expected), expected[:10].tolist())
    assert len(broken.values) == min(10, len(expected))


def test_satisfied_rules_are_not_mentioned(backend: Backend, frame: pd.DataFrame) -> None:
    rules: dict[str, Any] = {
        "number": {"range": [-100, 200]}, "whole": {"dtype": "int", "range": [-5, 399], "nulls": False},
        "category": {"set": ["a", "b", "c", "Ä"], "regex": "."}, "time": {"range": ["2020-01-01", None]},
    }  # fmt: skip
    assert judged(backend, frame, **rules) == []


def test_values_are_shown_as_written(backend: Backend) -> None:
    columns = pa.table(
        {
            "x": pa.array([0.1, 1e20, 3.0], pa.float32()),
            "t": pa.array([0, 1, 86_400_000_000], pa.timestamp("us")),
            "c": ["a\n<b>", "x" * 60, ""],
        }
    )
    found = judged(backend, columns, x={"range": [9, 10]}, t={"range": ["2000-01-01", None]}, c={"set": ["y"]})
    assert [each.values for each in found][:2] == [
        ("0.1", "1e+20", "3"),
        ("1970-01-01", "1970-01-01T00:00:00.000001", "1970-01-02"),
    ]
    assert "'a\\n<b>'" in found[2].line(str) and "xxx..." in found[2].line(str)


def test_texts_in_numeric_columns_are_reported_with_their_rows(backend: Backend) -> None:
    columns = pa.table({"n": ["1", "2", "many", None, "2.5e3", "few"], "d": ["1", "2", "3", "4", "5", "6"]})
    wrong, whole = judged(backend, columns, n={"range": [0, 9]}, d={"dtype": "float"})
    assert (wrong.rows, wrong.values, wrong.rule) == ((2, 5), ("'many'", "'few'"), "range: [0, 9]")
    assert (
        whole.n_rows == 0
        and whole.breach == "the column is categorical, but all values can be read as numeric; expected dtype: float"
    )
    assert "source.schema: {d: float}" in whole.line(str)


@pytest.mark.parametrize(
    ("values", "dtype", "rows"),
    [
        (["2024-01-01", "soon", "2024-02-01"], "date", (1,)),
        (["yes", "no", "perhaps"], "bool", (2,)),
        ([0.0, 1.0, 2.0], "bool", (2,)),
        ([True, None, False], "numeric", (0, 2)),
        ([1.0, None, 2.0], "text", (0, 2)),
    ],
)
def test_values_of_the_wrong_kind_are_reported(
    backend: Backend, values: Any, dtype: str, rows: tuple[int, ...]
) -> None:
    (broken,) = judged(backend, pa.table({"x": values}), x={"dtype": dtype})
    assert broken.rows == rows and broken.detail.startswith("the column is ")


def test_few_and_many_distinct_texts_are_text_alike(backend: Backend) -> None:
    few, many = ["a", "b"] * 60, [f"t{i}" for i in range(120)]
    for dtype in ("text", "string", "category"):
        assert judged(backend, pa.table({"f": few, "m": many}), f={"dtype": dtype}, m={"dtype": dtype}) == []


def test_a_rule_for_other_kinds_names_the_kinds_it_applies_to(backend: Backend) -> None:
    columns = pa.table({"x": [1, 2], "t": pa.array([1, 2], pa.timestamp("s"))})
    with pytest.raises(ConfigError, match=r"regex does not apply to column 'x', which is numeric") as caught:
        judged(backend, columns, x={"regex": "a"})
    assert caught.value.where == "data.x.regex"
    with pytest.raises(ConfigError, match="set does not apply to column 't'"):
        judged(backend, columns, t={"set": ["2024-01-01"]})


def test_long_ids_that_float64_rounds_are_not_called_repeated(backend: Backend) -> None:
    ids = pa.table({"id": [2**60, 2**60 + 1, 5]})
    with pytest.raises(SchemaError, match=r"cannot check that 'id' is unique"):
        judged(backend, ids, id={"unique": True})
    assert judged(backend, ids, {"id": "text"}, id={"unique": True}) == []
    (broken,) = judged(backend, pa.table({"id": [7, 2**60, 7]}), id={"unique": True})
    assert broken.rows == (0, 2)


def test_bounds_of_integers_are_exact(backend: Backend) -> None:
    (broken,) = judged(backend, pa.table({"x": [2**24, 2**24 - 1]}), x={"range": [2**24 + 0.5, None]})
    assert broken.n_rows == 2
    assert judged(backend, pa.table({"x": [2**24]}), x={"range": [None, 2**24 + 0.5]}) == []


def test_texts_of_many_chunks_are_one_column(backend: Backend) -> None:
    chunks = [pa.array(["a@b", "x"]), pa.array([None, "x"]), pa.array(["c@d"])]
    texts = pa.table({"s": pa.chunked_array([chunk.dictionary_encode() for chunk in chunks])})
    found = judged(backend, texts, {"s": "text"}, s={"unique": True, "regex": ".+@.+", "nulls": False})
    assert {each.rule: each.rows for each in found} == {
        "nulls: false": (2,), "regex: .+@.+": (1, 3), "unique: true": (1, 3)
    }  # fmt: skip


def test_no_rows_break_no_rule(backend: Backend) -> None:
    empty = pa.table({"x": pa.array([], pa.float64()), "s": pa.array([], pa.string())})
    rules: dict[str, Any] = {
        "x": {"range": [0, 1], "unique": True},
        "s": {"regex": "a", "unique": True, "nulls": False},
    }
    assert judged(backend, empty, {"s": "text"}, **rules) == []
    assert judged(backend, empty.slice(0, 0), s=rules["s"]) == []


def test_many_broken_rules_fit_on_one_screen() -> None:
    each = RuleViolation("c", "nulls: false", 99, tuple(range(10)), ("null",) * 10)
    assert len(describe_violations([each] * 100, str)) == 25
    assert max(map(len, describe_violations([each] * 100, str))) < 120 < len(describe_violations([each], str)[0])
