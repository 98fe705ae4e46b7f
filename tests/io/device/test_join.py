"""Joins on a device: the host's table, or the host's error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gpupipe.config import load_config
from gpupipe.errors import GpupipeError
from gpupipe.io.device.source_reader import read_frame
from gpupipe.io.join import read_joined
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.table.blocks import Table
from gpupipe.table.device.encode import encode_frame
from gpupipe.table.encode import encode
from gpupipe.training.preparation.read_stage import read_table
from tests.backends.pandas_double import PandasBackend
from tests.examples import examples
from tests.io.device.test_source_reader import PandasDevice, assert_same_table


@pytest.fixture(scope="module")
def backend() -> PandasBackend:
    return PandasBackend()


def declarations(source: Source, tables: dict[str, JoinedTable]) -> dict[str, Any]:
    found = dict(source.declarations())
    for table in tables.values():
        found |= {f"{table.prefix}{name}": kind for name, kind in table.declarations().items()}
    return found


def on_host(source: Source, tables: dict[str, JoinedTable], backend: PandasBackend) -> tuple[Table, list[str]]:
    loaded = read_joined(source, tables)
    return encode(loaded.table, backend, declarations(source, tables)), loaded.notes.lines()


def on_device(source: Source, tables: dict[str, JoinedTable], backend: PandasBackend) -> tuple[Table, list[str]]:
    loaded = read_frame(source, backend, tables)
    table = encode_frame(loaded.columns, backend, declarations(source, tables), rules=loaded.rules)
    return table, loaded.notes.lines()


def compare(source: Source, tables: dict[str, JoinedTable], backend: PandasBackend) -> None:
    """Compare the table, or the refusal."""
    try:
        expected, notes = on_host(source, tables, backend)
    except GpupipeError as error:
        with pytest.raises(type(error)) as refused:
            on_device(source, tables, backend)
        assert str(refused.value) == str(error)
    else:
        found, said = on_device(source, tables, backend)
        assert_same_table(found, expected)
        assert said == notes


def two(
    folder: Path, left: dict[str, Any], right: dict[str, Any], on: Any = "k", **more: Any
) -> tuple[Source, dict[str, JoinedTable]]:
    for name, columns in (("left", left), ("right", right)):
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=2)
    more.setdefault("cardinality", "many_to_one")
    joined = JoinedTable.model_validate({"path": str(folder / "right.parquet"), "on": on, **more})
    return Source(path=str(folder / "left.parquet")), {"right": joined}


def dates(*texts: Any) -> Any:
    return pd.to_datetime(list(texts))


LEFT = {"k": ["b", "a", None, "z", "b "], "n": [1, 2, 3, 4, 5], "day": ["mo", "tu", "mo", "we", "mo"]}
RIGHT = {
    "k": ["a", "b", "c", None, "NA"], "v": [10, 20, 3_000_000_000_000, 40, 50], "s": ["x", None, "unused", "n", "m"],
    "t": dates("2024-01-01", None, "2024-01-03", "2024-01-04", "2024-01-05"),
    "f": [True, None, False, True, True],
}  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [{}, {"prefix": "r_"}, {"columns": ["k", "s"]}, {"where": "v < 100"}, {"schema": {"v": "categorical"}},
     {"schema": {"s": "text"}}, {"schema": {"v": "float"}}, {"cardinality": "one_to_one"}, {"drop": ["k"]}],
    ids=str,
)  # fmt: skip
def test_columns_of_another_table_are_looked_up(tmp_path: Path, backend: PandasBackend, more: dict[str, Any]) -> None:
    compare(*two(tmp_path, LEFT, RIGHT, **more), backend)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([1, 2, None], pa.int8()), pa.array([2, 1, 7])),
        ([1.0, float("nan"), 2.0], [2, 1, 7]),
        ([1.5, 2.5, None], [2.5, 1.5, 3.5]),
        (["1", "2", None], [2, 1, 7]),
        (["1", "x", None], [2, 1, 7]),
        ([True, False, None], [True, False, None]),
        (dates("2024-01-01", None, "2024-01-03"), dates("2024-01-03", "2024-01-04", None)),
        ([1.5, 2.5, None], [2, 1, 7]),
        (["a", "b", None], dates("2024-01-03", "2024-01-04", None)),
        ([1, 2, 3], [1, 1, 2]),
        (["a", "b", "c"], ["c", "d", "c"]),
        ([1, 2, 3], pa.nulls(3, pa.int64())),
        (pa.nulls(3), [1, 2, 3]),
    ],
)
def test_keys_of_all_types_meet_or_are_refused_as_on_the_host(
    tmp_path: Path, backend: PandasBackend, left: Any, right: Any
) -> None:
    compare(*two(tmp_path, {"k": left, "n": [1, 2, 3]}, {"k": right, "v": [1, 2, 3]}), backend)


def test_a_key_of_several_columns_matches_as_a_whole(tmp_path: Path, backend: PandasBackend) -> None:
    left = {"k": [1, 1, 2, 2, None], "day": ["mo", "tu", "mo", "we", "mo"], "x": [0, 0, 0, 1, 1]}
    right = {"id": [1, 2, 1], "d": ["tu", "mo", "mo"], "y": [0, 0, 0], "v": [1.0, 2.0, 3.0]}
    compare(*two(tmp_path, left, right, on={"left": ["k", "day"], "right": ["id", "d"]}), backend)
    on = {"left": ["k", "day", "x"], "right": ["id", "d", "y"]}
    compare(*two(tmp_path, left, right, on=on), backend)
    right = {**right, "d": ["mo", "mo", "mo"]}
    compare(*two(tmp_path, left, right, on=on), backend)  # twice there


@pytest.mark.parametrize("on", ["absent", {"left": "n", "right": "absent"}, {"left": "n", "right": "v"}])
def test_a_key_that_is_not_there_and_names_that_clash_are_refused(
    tmp_path: Path, backend: PandasBackend, on: Any
) -> None:
    compare(*two(tmp_path, {**LEFT, "s": ["x"] * 5}, RIGHT, on=on), backend)


def test_a_further_table_may_have_its_keys_in_an_earlier_one(tmp_path: Path, backend: PandasBackend) -> None:
    source, tables = two(tmp_path, LEFT, RIGHT)
    pq.write_table(pa.table({"s": ["x", "q"], "w": [0.5, 1.5]}), tmp_path / "third.parquet")
    third = JoinedTable(path=str(tmp_path / "third.parquet"), on="s", cardinality="many_to_one")
    compare(source, {**tables, "third": third}, backend)


def test_a_column_has_nulls_where_rows_with_a_match_have(tmp_path: Path, backend: PandasBackend) -> None:
    source, tables = two(tmp_path, {"k": ["a"], "n": [1]}, {"k": ["a", None], "s": ["x", None]})
    compare(source, tables, backend)
    assert not on_device(source, tables, backend)[0].schema["s"].nullable


def test_values_of_rows_without_a_match_do_not_count(tmp_path: Path, backend: PandasBackend) -> None:
    """The long number without a match does not fit into float32."""
    right = {"k": ["a", "z"], "v": [5, 9007199254740993000], "s": ["01", "x"]}
    source, tables = two(tmp_path, {"k": ["a", "a", "b"]}, right)
    assert on_device(source, tables, backend)[0].schema["v"].storage == "float32"
    pq.write_table(pa.table({"s": ["01", "1"], "w": [0.5, 1.5]}), tmp_path / "third.parquet")
    third = JoinedTable(path=str(tmp_path / "third.parquet"), on="s", cardinality="many_to_one")
    compare(source, {**tables, "third": third}, backend)
    assert on_device(source, {**tables, "third": third}, backend)[0].column("w")[0] == 0.5


CONFIG = """
source: {{path: {folder}/left.parquet, target: k}}
tables: {{right: {{path: {folder}/right.parquet, on: k, cardinality: many_to_one, prefix: r_, schema: {{v: float}}}}}}
models: [logistic_regression]
"""


def test_the_pipeline_joins_on_the_device(tmp_path: Path, backend: PandasBackend) -> None:
    two(tmp_path, LEFT, RIGHT)
    (tmp_path / "c.yaml").write_text(CONFIG.format(folder=tmp_path))
    config, device = load_config(tmp_path / "c.yaml"), PandasDevice()
    read, expected = read_table(config, device), read_table(config, backend)
    assert_same_table(read.table, expected.table)
    assert read.notes == expected.notes and "table 'right': 60.0% of the rows have a match" in read.notes
    assert device.fallbacks() == []


KEYS = st.one_of(st.none(), st.sampled_from(["a", "b ", "b", "1", " 1", "1.0", "NA", "", "01", "x y"]))


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    left=st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=6),
    right=st.lists(st.tuples(KEYS, KEYS), min_size=1, max_size=6, unique=True),
    n_keys=st.integers(1, 2),
)
def test_keys_of_any_texts_meet_as_on_the_host(
    tmp_path: Path, backend: PandasBackend, left: list, right: list, n_keys: int
) -> None:
    names = ["k", "m"]
    tables = [
        pa.table({**{n: pa.array([row[i] for row in rows], pa.string()) for i, n in enumerate(names)}, own: values})
        for rows, own, values in ((left, "n", list(range(len(left)))), (right, "v", list(range(len(right)))))
    ]
    right_table = tables[1] if n_keys == 2 else tables[1].rename_columns(["k", "s", "v"])
    compare(*two(tmp_path, tables[0], right_table, on=names[:n_keys]), backend)
