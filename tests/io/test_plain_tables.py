"""Columns of readers as plain columns: those without a name, categories, intervals and periods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gpupipe.errors import SchemaError
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.io.source_reader import LoadedTable, read_arrow

ROWS = pd.DataFrame({"x": [1, 2, 3], "y": [0, 1, 0]}, index=[2, 0, 1])
TWO_LEVELS = ROWS.set_index(pd.MultiIndex.from_tuples([(1, 2), (0, 1), (0, 2)]))


def _parquet(frame: pd.DataFrame, folder: Path) -> Any:
    frame.to_parquet(folder / "t.parquet")
    return str(folder / "t.parquet")


def _arrow(frame: pd.DataFrame, folder: Path) -> Any:
    table = pa.Table.from_pandas(frame)
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return str(folder / "t.arrow")


def _csv(frame: pd.DataFrame, folder: Path) -> Any:
    frame.to_csv(folder / "t.csv")
    return str(folder / "t.csv")


def _hive(frame: pd.DataFrame, folder: Path) -> Any:
    for part, rows in frame.groupby("y"):
        (folder / f"part={part}").mkdir()
        rows.to_parquet(folder / f"part={part}" / "t.parquet")
    return str(folder)


def _polars(frame: pd.DataFrame, folder: Path) -> Any:
    return pl.read_parquet(_parquet(frame, folder))


def _read_csv(frame: pd.DataFrame, folder: Path) -> Any:
    return pd.read_csv(_csv(frame, folder))


ROADS = [_parquet, _arrow, _csv, _hive, _polars, _read_csv, lambda frame, folder: frame]


def _read(origin: Any, **settings: Any) -> LoadedTable:
    return read_arrow(Source.model_validate({"path": origin, **settings}))


@pytest.mark.parametrize("frame", [ROWS, TWO_LEVELS], ids=["one level", "two levels"])
@pytest.mark.parametrize("write", ROADS, ids=["Parquet", "Arrow", "CSV", "hive", "polars", "read_csv", "frame"])
def test_an_index_without_a_name_is_ignored_with_a_note(
    write: Callable[[pd.DataFrame, Path], Any], frame: pd.DataFrame, tmp_path: Path
) -> None:
    loaded = _read(write(frame, tmp_path))
    assert [name for name in loaded.table.column_names if name != "part"] == ["x", "y"]
    n_notes = 0 if write is ROADS[-1] else frame.index.nlevels  # pandas keeps the index of a frame apart
    assert sum("it has no name, like a row index" in note for note in loaded.notes) == n_notes


@pytest.mark.parametrize(("write", "name"), [(_parquet, "__index_level_0__"), (_csv, "Unnamed: 0"), (_csv, "column_1")])
def test_an_index_that_the_source_names_is_used(
    write: Callable[[pd.DataFrame, Path], Any], name: str, tmp_path: Path
) -> None:
    path, index = write(ROWS, tmp_path), [2, 0, 1]
    for settings in ({"columns": [name]}, {"where": f"`{name}` >= 0", "columns": [name]}, {"target": name}):
        assert _read(path, **settings).table.column(name).to_pylist() == index
    if name != "column_1":  # models of earlier versions name exactly the columns that they read
        assert set(_read(path, schema={name: "float"}).table.column_names) == {name, "x", "y"}
    assert read_arrow(Source(path=path), columns=[name]).table.column_names == [name]
    assert _read(path, drop=[name]).table.column_names == ["x", "y"]


def test_the_keys_of_a_joined_table_may_be_an_index(tmp_path: Path) -> None:
    name = "__index_level_0__"
    table = JoinedTable(path=_parquet(ROWS, tmp_path), on=name, cardinality="many_to_one")
    assert read_arrow(table).table.column_names == ["x", "y", name]


def test_an_index_with_a_name_is_a_column(tmp_path: Path) -> None:
    assert _read(_parquet(ROWS.rename_axis("id"), tmp_path)).table.column_names == ["x", "y", "id"]


@pytest.mark.parametrize("name", ["", " "])
@pytest.mark.parametrize("write", [_parquet, _polars, lambda frame, folder: frame], ids=["Parquet", "polars", "frame"])
def test_a_blank_name_is_ignored_and_refused_if_requested(
    write: Callable[[pd.DataFrame, Path], Any], name: str, tmp_path: Path
) -> None:
    origin = write(ROWS.reset_index(drop=True).rename(columns={"x": name}), tmp_path)
    assert _read(origin).table.column_names == ["y"]
    with pytest.raises(SchemaError, match=r"has no name, so it cannot be used") as caught:
        _read(origin, columns=[name])
    assert "rename it" in caught.value.fix


INTERVALS = pd.cut(pd.Series([0.5, 1.5, 0.5]), [0, 1, 2])
TIMES: Any = pd.Series(["2024-01-02", None, "2024-01-02"]).astype("datetime64[us]")
CATEGORIES: dict[str, tuple[Any, Any]] = {
    "integers": (pd.Categorical([4, 2, 4], [2, 3, 4]), [4, 2, 4]),
    "ordered": (pd.Categorical([4, 2, 4], ordered=True), [4, 2, 4]),
    "booleans": (pd.Categorical([True, False, True]), [True, False, True]),
    "fractions": (pd.Categorical([0.5, 1.5, 0.5]), [0.5, 1.5, 0.5]),
    "times": (pd.Categorical(TIMES), None),
    "intervals": (INTERVALS, list(map(str, INTERVALS))),
    "plain intervals": (pd.Series(INTERVALS.to_list()), list(map(str, INTERVALS))),
    "intervals as objects": (INTERVALS.astype(object), list(map(str, INTERVALS))),
    "periods": (pd.Series(pd.PeriodIndex(["2024-01", None, "2024-03"], freq="M")), ["2024-01", None, "2024-03"]),
    "sparse": (pd.arrays.SparseArray([1, 0, 1]), [1, 0, 1]),
}
NOT_IN_PARQUET = ("intervals", "intervals as objects", "sparse")


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories_keep_their_kind_and_values(kind: str, tmp_path: Path) -> None:
    column, expected = CATEGORIES[kind]
    frame = pd.DataFrame({"c": column})
    roads = [frame, pa.Table.from_pandas(frame) if kind not in NOT_IN_PARQUET else frame]
    roads += [] if kind in NOT_IN_PARQUET else [_parquet(frame, tmp_path)]
    roads += [] if kind in NOT_IN_PARQUET else [_arrow(frame, tmp_path)]
    for origin in roads:
        found = _read(origin).table.column("c")
        assert pa.types.is_dictionary(found.type) is (kind != "sparse")
        values = expected if expected is not None else pd.Series(column).dt.to_pydatetime().tolist()
        assert [None if pd.isna(v) else v for v in found.to_pylist()] == [None if pd.isna(v) else v for v in values]
        assert np.asarray(found.is_null()).tolist() == [value is None or pd.isna(value) for value in values]


def test_chunks_of_categories_have_one_type(tmp_path: Path) -> None:
    for part, values in enumerate(([1, 2], [3, 1])):
        pd.DataFrame({"c": pd.Categorical(values)}).to_parquet(tmp_path / f"{part}.parquet")
    loaded = _read(str(tmp_path))
    assert loaded.table.schema.types == [pa.dictionary(pa.int32(), pa.int64())]
    assert loaded.table.column("c").to_pylist() == [1, 2, 3, 1]
    assert _read(str(tmp_path), where="c == 1").table.num_rows == 2
