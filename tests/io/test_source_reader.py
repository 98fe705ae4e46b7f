"""Reading a source into one table: generators, public tables, selected columns."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpupipe.errors import DataError, SchemaError
from gpupipe.io.csv_settings import CsvSettings
from gpupipe.io.file_formats import GENERATORS, format_of, load_generator
from gpupipe.io.input_files import input_files
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import plain_arrow, read_arrow

TEXT = pa.dictionary(pa.int32(), pa.string())
ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_is_read_like_a_file(name: str) -> None:
    whole = read_arrow(Source(generate=name, rows=500, seed=3))
    first = whole.table.column_names[1]
    part = read_arrow(Source(generate=name, rows=500, seed=3, columns=[first], where=f"{first} is not None"))
    assert part.table.column_names == [first]
    assert part.table.column(0).to_pylist() == [v for v in whole.table.column(first).to_pylist() if v is not None]
    assert whole.table.equals(load_generator(name)(500, 3, None))
    assert whole.files != read_arrow(Source(generate=name, rows=500, seed=4)).files


def test_the_target_and_the_columns_of_the_filter_are_always_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3], "b": [4, 5, 6], "y": [0, 1, 0], "z": [7, 8, 9]}), tmp_path / "t.parquet")
    source = Source(path="t.parquet", target="y", where="b > 4", drop=["b"])
    assert read_arrow(source).table.to_pydict() == {"a": [2, 3], "y": [1, 0], "z": [8, 9]}
    assert read_arrow(source, columns=["z"]).table.to_pydict() == {"y": [1, 0], "z": [8, 9]}
    with pytest.raises(SchemaError, match="no such column: q"):
        read_arrow(source, columns=["q"])
    with pytest.raises(DataError, match="no row passes the filter"):
        read_arrow(Source(path="t.parquet", where="b > 100"))


def test_selectors_are_names_and_globs_and_kinds_are_resolved_later(tmp_path: Path) -> None:
    columns = {"usage_1": [1], "usage_2": [2], "note": ["x"], "odd[1]": [3]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")

    def names(**settings: list[str]) -> list[str]:
        return read_arrow(Source(path="t.parquet", **settings)).table.column_names

    assert names(drop=["usage_*"]) == ["note", "odd[1]"]
    assert names(columns=["usage_*", "odd[1]"], drop=["usage_1"]) == ["usage_2", "odd[1]"]
    assert names(drop=["@text"]) == list(columns)


def test_a_large_file_is_read_in_its_order(tmp_path: Path) -> None:
    n = 300_000
    frame = pd.DataFrame({"i": range(n), "s": pd.array([f"v{i % 1000}" for i in range(n)], "str")})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=70_000)
    for name in ("t.csv", "t.parquet"):
        table = read_arrow(Source(path=name)).table
        pd.testing.assert_frame_equal(table.cast(pa.schema({"i": pa.int64(), "s": pa.string()})).to_pandas(), frame)


def test_input_files_are_known_without_reading(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"no parquet")
    assert [file.size for file in input_files(Source(path="t.parquet"))] == [10]


def test_a_table_in_memory_is_normalised_like_a_file() -> None:
    table = plain_arrow(pa.table({"s": ["x", " NA"], "n": pa.array([1, None], pa.float16()), "l": [[1], [2]]}))
    assert table.schema.types == [TEXT, pa.float32(), pa.large_list(pa.float64())]
    assert table.to_pydict() == {"s": ["x", None], "n": [1.0, None], "l": [[1.0], [2.0]]}


@pytest.mark.parametrize(
    ("path", "name"),
    [("a.csv", "csv"), ("A.CSV.GZ", "csv"), ("a.tsv.zst", "csv"), ("a.ndjson", "jsonl"), ("a.pq", "parquet"),
     ("a.ipc", "arrow"), ("a.orc", "orc"), ("a.parquet.gz", None), ("a.txt", None), ("csv", None)],
)  # fmt: skip
def test_the_suffix_says_the_format(path: str, name: str | None) -> None:
    assert format_of(path) == name


@pytest.mark.data
def test_the_two_adult_files_are_one_table(data_dir: Path) -> None:
    csv = CsvSettings(names=ADULT, null_values=("?",), bad_rows="skip")
    paths = tuple(str(data_dir / "adult-income" / name) for name in ("adult.data", "adult.test"))
    loaded = read_arrow(Source(path=paths, format="csv", csv=csv))
    assert loaded.table.shape == (48_842, 15)
    assert loaded.table.column("workclass").null_count == 1_836 + 963
    assert set(loaded.table.column("income").unique().to_pylist()) == {"<=50K", ">50K", "<=50K.", ">50K."}
    assert loaded.table.field("age").type == pa.int64()
    assert sum("skipped 1 row" in note for note in loaded.notes) == 1


@pytest.mark.data
def test_blank_charges_of_the_telco_table_are_null_numbers(data_dir: Path) -> None:
    table = read_arrow(Source(path=str(data_dir / "telco-churn/Telco-Customer-Churn.csv"))).table
    assert table.num_rows == 7_043 and table.column("TotalCharges").null_count == 11
    assert table.field("TotalCharges").type == pa.float64() and table.field("MultipleLines").type == TEXT


@pytest.mark.data
@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("chicago-taxi/chicago_taxi.csv", (15_002, 18)),
        ("nyc-taxi/nyc_taxi.csv", (10_000, 14)),
        ("bike-sharing/bike.csv", (17_379, 15)),
        ("diamonds/diamonds.csv", (53_940, 10)),
        ("online-retail/online_retail.csv.gz", (541_909, 8)),
        ("online-retail/by-day", (42_481, 8)),
    ],
)
def test_public_tables_have_the_rows_and_nulls_that_pandas_sees(
    data_dir: Path, path: str, shape: tuple[int, int]
) -> None:
    table = read_arrow(Source(path=str(data_dir / path))).table
    assert table.shape == shape
    parts = sorted((data_dir / path).glob("*.csv")) if (data_dir / path).is_dir() else [data_dir / path]
    theirs = pd.concat([pd.read_csv(part, low_memory=False) for part in parts])
    ours = {name: table.column(name).null_count for name in table.column_names}
    texts = [name for name in ours if theirs[name].dtype == "str"]
    blank = {name: int(theirs[name].str.strip().isin(["", "?"]).sum()) for name in texts}
    assert all(0 <= ours[n] - int(theirs[n].isna().sum()) <= blank.get(n, 0) for n in ours)
