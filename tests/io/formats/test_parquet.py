"""Parquet: dictionary codes, projection, every type, corrupt files."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupipe.errors import DataError, SchemaError
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow
from tests.examples import examples

TEXT = pa.dictionary(pa.int32(), pa.string())

LOADS = {
    "ARROW-17100.parquet": (5, 4), "air_quality_tiny.parquet": (17, 11), "alltypes-java.parquet": (2, 28),
    "alltypes_dictionary.parquet": (2, 11), "alltypes_plain.parquet": (8, 11), "alltypes_plain.snappy.parquet": (2, 11),
    "alltypes_tiny_pages.parquet": (7300, 13), "binary.parquet": (12, 1), "byte_array_decimal.parquet": (24, 1),
    "byte_stream_split.zstd.parquet": (300, 2), "concatenated_gzip_members.parquet": (513, 1),
    "data_index_bloom_encoding_stats.parquet": (14, 1), "datapage_v2.snappy.parquet": (5, 4),
    "datapage_v2_empty_datapage.snappy.parquet": (1, 1), "delta_binary_packed.parquet": (200, 66),
    "delta_byte_array.parquet": (1000, 9), "delta_length_byte_array.parquet": (1000, 1),
    "dict-page-offset-zero.parquet": (39, 1), "fixed_length_decimal.parquet": (24, 1),
    "fixed_length_byte_array.parquet": (1000, 1),
    "fixed_length_decimal_legacy.parquet": (24, 1), "float16_nonzeros_and_nans.parquet": (8, 1),
    "hadoop_lz4_compressed.parquet": (4, 3), "int32_decimal.parquet": (24, 1),
    "int32_with_null_pages.parquet": (1000, 1),
    "int64_decimal.parquet": (24, 1), "int96_from_spark.parquet": (6, 1), "lz4_raw_compressed.parquet": (4, 3),
    "nan_in_stats.parquet": (2, 1), "nation.dict-malformed.parquet": (25, 4), "nested_lists.snappy.parquet": (3, 1),
    "nested_maps.snappy.parquet": (6, 2), "nonnullable.impala.parquet": (1, 1), "nullable.impala.parquet": (7, 1),
    "repeated_no_annotation.parquet": (6, 1), "rle_boolean_encoding.parquet": (68, 1), "single_nan.parquet": (1, 1),
    "sort_columns.parquet": (6, 2), "unknown-logical-type.parquet": (3, 2),
}  # fmt: skip
REFUSED = {
    **{
        name + ".parquet": "no usable column"
        for name in ("large_string_map.brotli", "list_columns", "map_no_value",
                     "nested_structs.rust", "null_list", "nulls.snappy", "old_list_structure")
    },
    "datapage_v1-corrupt-checksum.parquet": "CRC checksum",
    "rle-dict-uncompressed-corrupt-checksum.parquet": "CRC checksum",
    "encrypt_columns_and_footer.parquet.encrypted": "encrypted",
    "incorrect_map_schema.parquet": "cannot be read",
}  # fmt: skip
BAD_BUT_READABLE = {"ARROW-GH-43605.parquet"}

READ_ALL = """
import json, sys
from gpupipe.errors import DataError
from gpupipe.io.source_reader import read_arrow
from gpupipe.io.settings import Source
for path in sys.argv[1:]:
    try:
        table = read_arrow(Source(path=path, format="parquet")).table
        table.validate(full=True)
        outcome = list(table.shape)
    except DataError as error:
        outcome = error.what
    print(json.dumps([path.rpartition("/")[2], outcome]), flush=True)
"""


@pytest.mark.data
def test_every_awkward_file_is_read_or_refused_with_a_reason_and_none_crashes_the_process(data_dir: Path) -> None:
    paths = sorted(str(path) for path in (data_dir / "parquet-types").glob("*data/*"))
    assert len(paths) == 58
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'kernels'}"}
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, *paths], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = dict(json.loads(line) for line in done.stdout.splitlines())
    assert len(outcomes) == 58
    for name, shape in LOADS.items():
        assert outcomes.pop(name) == list(shape), name
    for name, reason in REFUSED.items():
        assert reason in outcomes.pop(name), name
    bad = set(os.listdir(data_dir / "parquet-types" / "bad_data"))
    assert set(outcomes) == bad
    assert all(isinstance(outcomes[name], str) for name in bad - BAD_BUT_READABLE)


@pytest.mark.data
def test_awkward_values_match_pyarrow(data_dir: Path) -> None:
    folder = data_dir / "parquet-types" / "data"

    def column(name: str, column: str) -> list[object]:
        return read_arrow(Source(path=str(folder / name))).table.column(column).to_pylist()

    assert column("int32_decimal.parquet", "value") == [float(n) for n in range(1, 25)]
    assert column("alltypes_plain.parquet", "string_col") == ["0", "1"] * 4
    assert column("alltypes-java.parquet", "null") == [None, None]
    fruits = pq.read_table(folder / "delta_length_byte_array.parquet").column("FRUIT").to_pylist()
    assert column("delta_length_byte_array.parquet", "FRUIT") == fruits
    spark = read_arrow(Source(path=str(folder / "int96_from_spark.parquet")))
    micros = spark.table.column("a").cast(pa.int64()).to_pylist()
    assert micros == [1704141296123456, 1704070800000000, 253402225200000000, 1735599600000000, None, None]
    assert any("1 time outside" in note for note in spark.notes)  # the last one, which wraps around elsewhere
    zoned = read_arrow(Source(path=str(folder / "air_quality_tiny.parquet"))).table.column("date.utc")
    assert zoned.type == pa.timestamp("us")
    assert read_arrow(Source(path=str(folder / "air_quality_tiny.parquet"))).table.column("country").type == TEXT


def write(path: Path, columns: dict[str, pa.Array], **options: object) -> None:
    pq.write_table(pa.table(columns), path, **options)


def test_strings_come_as_codes_whatever_their_layout(tmp_path: Path) -> None:
    values = ["b", None, "a", "b"]
    write(
        tmp_path / "t.parquet",
        {
            "string": pa.array(values),
            "large": pa.array(values, pa.large_string()),
            "codes": pa.array(values).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
            "bytes": pa.array([v and v.encode() for v in values], pa.binary()),
            "fixed": pa.array([v and v.encode() for v in values], pa.binary(1)),
        },
    )
    table = read_arrow(Source(path="t.parquet")).table
    for name in table.column_names:
        assert table.column(name).type == TEXT, name
        assert table.column(name).to_pylist() == values, name


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_delta_encoded_strings_are_read_in_every_row_group(tmp_path: Path, encoding: str) -> None:
    values = [f"v{i % 7}" for i in range(1000)]
    write(
        tmp_path / "t.parquet",
        {"a": pa.array(values), "b": pa.array(values)},
        column_encoding={"a": encoding},
        use_dictionary=["b"],
        row_group_size=300,
    )
    table = read_arrow(Source(path="t.parquet")).table
    assert table.column("a").to_pylist() == table.column("b").to_pylist() == values


def test_numbers_and_times_become_the_plain_types(tmp_path: Path) -> None:
    day = dt.datetime(2024, 2, 29, 12)
    write(
        tmp_path / "t.parquet",
        {
            "decimal": pa.array([decimal.Decimal("1.25"), None]),
            "half": pa.array([1.5, None], pa.float16()),
            "small_uint64": pa.array([1, 2**63 - 1], pa.uint64()),
            "large_uint64": pa.array([1, 2**64 - 1], pa.uint64()),
            "zoned": pa.array([day, None], pa.timestamp("ms", tz="America/New_York")),
            "nanos": pa.array([1_500, None], pa.timestamp("ns")),
            "date": pa.array([day.date(), None]),
            "time": pa.array([dt.time(1, 0, 0, 500_000), None]),
            "nothing": pa.nulls(2),
            "tiny": pa.array([1, None], pa.int8()),
        },
    )
    loaded = read_arrow(Source(path="t.parquet"))
    table = loaded.table
    micros = pa.timestamp("us")
    assert [table.field(n).type for n in ("decimal", "half", "small_uint64", "large_uint64", "nothing", "tiny")] == [
        pa.decimal128(3, 2), pa.float32(), pa.uint64(), pa.uint64(), pa.float64(), pa.int8(),
    ]  # fmt: skip
    zoned = pa.timestamp("us", "America/New_York")
    assert [table.field(n).type for n in ("zoned", "nanos", "date")] == [zoned, micros, micros]
    assert table.column("zoned").cast(micros).to_pylist() == [day, None]  # pyarrow takes the naive time as UTC
    assert table.column("nanos").cast(pa.int64()).to_pylist() == [1, None]
    assert table.column("date").to_pylist() == [dt.datetime(2024, 2, 29), None]
    assert table.column("time").to_pylist() == [3600.5, None]
    assert table.column("large_uint64").to_pylist() == [1, 2**64 - 1]
    assert table.column("nothing").null_count == 2


def test_times_of_files_in_two_zones_have_none(tmp_path: Path) -> None:
    for name, zone in (("a", "Asia/Tokyo"), ("b", "Europe/Paris"), ("c", None)):
        write(tmp_path / f"{name}.parquet", {"t": pa.array([7], pa.timestamp("us", zone))})
    assert read_arrow(Source(path="*.parquet")).table["t"].cast(pa.int64()).to_pylist() == [7, 7, 7]
    kinds = [str(read_arrow(Source(path=path)).table["t"].type) for path in ("*.parquet", "a.parquet")]
    assert kinds == ["timestamp[us]", "timestamp[us, tz=Asia/Tokyo]"]


def test_times_that_microseconds_cannot_hold_are_null_and_counted(tmp_path: Path) -> None:
    write(
        tmp_path / "t.parquet", {"t": pa.array([0, 2**62], pa.timestamp("ms")), "d": pa.array([0, 2**30], pa.date32())}
    )
    loaded = read_arrow(Source(path="t.parquet"))
    assert loaded.table.column("t").cast(pa.int64()).to_pylist() == [0, None]
    assert loaded.table.column("d").cast(pa.int64()).to_pylist() == [0, None]
    assert any("'t' has 1 time outside the years" in note for note in loaded.notes)


def test_nested_columns_are_dropped_with_a_note_and_refused_if_requested(tmp_path: Path) -> None:
    write(
        tmp_path / "t.parquet",
        {"a": pa.array([{"b": 1}]), "a.b": pa.array([7]), "l": pa.array([[1]]), "raw": pa.array([b"\xff\xfe"])},
    )
    loaded = read_arrow(Source(path="t.parquet"))
    assert loaded.table.to_pydict() == {"a.b": [7], "raw": ["0xfffe"]}
    assert sum("is dropped" in note for note in loaded.notes) == 2
    for settings_ in ({"columns": ["a"]}, {"target": "l"}, {"columns": ["l", "a.b"]}):
        with pytest.raises(SchemaError, match="not supported"):
            read_arrow(Source(path="t.parquet", **settings_))


def test_missing_value_words_match_csv_and_are_noted(tmp_path: Path) -> None:
    write(tmp_path / "t.parquet", {"s": pa.array(["x", "", " NA ", None, " y"])})
    loaded = read_arrow(Source(path="t.parquet"))
    assert loaded.table.column("s").to_pylist() == ["x", None, None, None, "y"]
    assert any("' NA '" in note for note in loaded.notes)


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, 0.99])
def test_a_truncated_file_is_one_clear_error(tmp_path: Path, keep: float) -> None:
    write(tmp_path / "t.parquet", {"a": pa.array(range(1000)), "b": pa.array(["x", "y"] * 500)})
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content[: int(keep * len(content)) if keep < 1 else int(keep)])
    with pytest.raises(DataError) as caught:
        read_arrow(Source(path="t.parquet"))
    assert "t.parquet" in caught.value.where and caught.value.exit_code == 5


def test_codes_outside_their_levels_are_refused(tmp_path: Path) -> None:
    plain = {"use_dictionary": ["s"], "compression": "none", "write_page_checksum": False, "write_statistics": False}
    write(tmp_path / "t.parquet", {"s": pa.array(["a", "b", "c", "d", "e"] * 100)}, **plain)
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    end = content.rindex(b"PAR1") - int.from_bytes(content[-8:-4], "little")
    content[end - 8] = 0xFF  # in the last page: codes of three bits, so 7 where 4 is the last
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(DataError):
        read_arrow(Source(path="t.parquet"))


def test_a_file_other_than_parquet_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("a,b\n1,2\n" * 10)
    with pytest.raises(DataError, match="cannot be read"):
        read_arrow(Source(path="t.parquet"))


@examples(40)
@given(
    ints=st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=50),
    texts=st.lists(st.one_of(st.none(), st.text(max_size=5).map(lambda text: "v" + text)), min_size=1, max_size=50),
    group=st.integers(1, 20),
)
def test_nullable_integers_and_texts_match_pandas(
    tmp_path_factory: pytest.TempPathFactory, ints: list[int | None], texts: list[str | None], group: int
) -> None:
    n = min(len(ints), len(texts))
    frame = pd.DataFrame({"i": pd.array(ints[:n], "Int64"), "s": pd.array(texts[:n], "str")})
    path = tmp_path_factory.mktemp("parquet") / "t.parquet"
    frame.to_parquet(path, row_group_size=group)
    table = read_arrow(Source(path=str(path))).table
    theirs = pd.read_parquet(path)
    assert table.column("i").to_pylist() == [None if pd.isna(i) else int(i) for i in theirs["i"]]
    assert table.column("s").to_pylist() == [None if pd.isna(s) else s.strip() for s in theirs["s"]]
    assert table.schema.types == [pa.int64(), TEXT]
