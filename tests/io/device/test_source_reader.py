"""Sources read on a device: the host's table, or a fallback with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from gpupipe.backends import DeviceOptions
from gpupipe.backends.gpu.backend import GpuBackend, _Meter
from gpupipe.config import load_config
from gpupipe.datasets.churn.customers import MOST_IDS
from gpupipe.errors import DataError, DeviceError, GpupipeError
from gpupipe.io.device.obstacles import (
    UnsupportedOnDevice,
    guard_device_read,
    is_read_on_host,
    require_plain,
)
from gpupipe.io.device.source_reader import read_frame
from gpupipe.io.files import SourceFile
from gpupipe.io.input_files import InputFiles
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.io.source_reader import read_arrow
from gpupipe.table.blocks import Table
from gpupipe.table.device.encode import encode_frame
from gpupipe.table.encode import encode
from gpupipe.training.preparation.read_stage import read_table
from tests.backends.pandas_double import PandasBackend


class PandasDevice(PandasBackend):
    """pandas instead of cuDF, with the GPU's fallback rule: tests the decisions, not cuDF."""

    name = "gpu"

    def __init__(self, fallback: Any = "forbid") -> None:
        super().__init__()
        self.options, self._meter = DeviceOptions(fallback=fallback), _Meter()
        self._meter.open()

    fall_back = GpuBackend.fall_back

    def fallbacks(self) -> list[str]:
        return list(self._meter.close(None).fallbacks)


@pytest.fixture(scope="module")
def backend() -> PandasBackend:
    return PandasBackend()


def on_host(source: Source, backend: PandasBackend) -> tuple[Table, list[str]]:
    loaded = read_arrow(source)
    return encode(loaded.table, backend, source.declarations()), loaded.notes.lines()


def on_device(source: Source, backend: PandasBackend) -> tuple[Table, list[str]]:
    require_plain(source)
    loaded = read_frame(source, backend)
    table = encode_frame(loaded.columns, backend, source.declarations(), rules=loaded.rules)
    return table, loaded.notes.lines()


def assert_same_table(found: Table, expected: Table) -> None:
    assert found.schema == expected.schema
    assert dict(found.places) == dict(expected.places) and set(found.blocks) == set(expected.blocks)
    nulls = {name: (len(text), text.null_count) for name, text in expected.texts.items()}
    assert {name: (len(text), text.null_count) for name, text in found.texts.items()} == nulls
    for name, block in expected.blocks.items():
        if block.dtype.kind == "f":  # a missing number may be any NaN
            np.testing.assert_array_equal(np.isnan(found.blocks[name]), np.isnan(block))
            known = ~np.isnan(block)
            assert found.blocks[name][known].tobytes() == block[known].tobytes()
        else:
            assert found.blocks[name].dtype == block.dtype and found.blocks[name].tobytes() == block.tobytes()


def compare(source: Source, backend: PandasBackend) -> Table:
    expected, notes = on_host(source, backend)
    found, said = on_device(source, backend)
    assert_same_table(found, expected)
    assert sorted(said) == sorted(notes)
    return found


def obstacle_of(source: Source, tables: Any = None) -> str:
    try:
        require_plain(source, tables)
    except UnsupportedOnDevice as obstacle:
        return obstacle.what
    return ""


@pytest.mark.data
def test_every_parquet_file_of_the_zoo_is_the_same_or_is_refused_by_both_or_is_the_hosts(
    data_dir: Path, backend: PandasBackend
) -> None:
    n_same = 0
    for path in sorted((data_dir / "parquet-types").glob("*/*.parquet")):
        source = Source(path=str(path))
        try:
            expected, _ = on_host(source, backend)
        except GpupipeError as error:
            if "checksum" in str(error):  # neither pandas nor cuDF looks at it
                continue
            with pytest.raises((type(error), UnsupportedOnDevice)):
                on_device(source, backend)
            continue
        try:
            found, _ = on_device(source, backend)
        except UnsupportedOnDevice as obstacle:
            assert obstacle_of(source) == obstacle.what
            assert "type" in obstacle.what
            continue
        assert_same_table(found, expected)
        n_same += 1
    assert n_same >= 20


@pytest.mark.parametrize(
    "options",
    [{"columns": ["b", "c*"]}, {"drop": ["a"]}, {"schema": {"a": "categorical"}}, {"schema": {"c": "float"}},
     {"schema": {"a": "text", "c": "category"}}, {"target": "a", "columns": ["b"]}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columns_and_declarations_mean_the_same(
    tmp_path: Path, backend: PandasBackend, kind: str, options: dict[str, Any]
) -> None:
    table = pa.table({"a": [1, 2, None], "b": ["x", "NA", "y"], "c": ["1.5", "", "2"]})
    path = tmp_path / f"t.{kind}"
    {"parquet": pq.write_table, "orc": orc.write_table}[kind](table, path)
    compare(Source(path=str(path), **options), backend)


FILTERED = pa.table(
    {"n": pa.array([1, 2, None, 4], pa.int8()), "f": pa.array([0.1, None, float("nan"), 3.5], pa.float32()),
     "s": ["a", "b ", None, "NA"], "b": [True, False, None, True],
     "t": pa.array([0, None, 86_400, 1], pa.timestamp("s")),
     "odd name": ["1", "2", None, "4"], "d": ["2024-01-01", None, "2024-01-03", "2024-01-03"]}
)  # fmt: skip
FILTERS = [
    "n > 1", "1 < n <= 4", "n >= 1000", "n is None", "n is not None", "not n > 1", "n in [1, 4.0]", "n not in [1]",
    "f > 0.1", "f == 3.5 or n == 2", "not (f > 0.1)", "not (n is None)", "2 > n", "s == 'a'", "s in ['a', 'b ']",
    "s != 'a'", "s is None", "not s == 'a'", "b", "not b", "b == True", "t > '1970-01-01'",
    "t >= '1970-01-02T01:00:00+01:00'",
    "n > 1 and s is not None", "n > 0 and (f > 1 or b)", "`odd name` is not None", "n < 3 and not (s == 'a' and b)",
]  # fmt: skip


@pytest.mark.parametrize("where", [*FILTERS, "d > 'a'"])
def test_a_filter_keeps_the_same_rows(tmp_path: Path, backend: PandasBackend, where: str) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(FILTERED, path)
    source = Source(path=str(path), where=where, columns=["n", "s", "d"])
    try:
        expected, _ = on_host(source, backend)
    except GpupipeError as error:
        with pytest.raises(type(error)) as refused:
            on_device(source, backend)
        assert refused.value.what == error.what
    else:
        assert_same_table(on_device(source, backend)[0], expected)


@pytest.mark.parametrize("where", ["n > 'a'", "s > 1", "n", "x > 1", "t > 5", "n > 100"])
def test_a_filter_that_does_not_fit_is_refused_as_on_the_host(
    tmp_path: Path, backend: PandasBackend, where: str
) -> None:
    pq.write_table(FILTERED, tmp_path / "t.parquet")
    source = Source(path=str(tmp_path / "t.parquet"), where=where)
    with pytest.raises(GpupipeError) as expected:
        on_host(source, backend)
    with pytest.raises(type(expected.value)) as refused:
        on_device(source, backend)
    assert refused.value.what == expected.value.what


def test_files_are_read_in_order_and_empty_ones_are_noted(tmp_path: Path, backend: PandasBackend) -> None:
    parts: list[list[str | None]] = [["b", "a"], [], ["c", None]]
    for i, rows in enumerate(parts):
        table = pa.table({"c": pa.array(rows, pa.string()), "n": pa.array([i] * len(rows), pa.int64())})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    table = compare(Source(path=str(tmp_path)), backend)
    assert table.column("n").tolist() == [0, 0, 2, 2]
    assert table.column("c").tolist() == [4, 3, 5, 0]


class RecordingDevice(PandasBackend):
    """Recorder of the files of each read; some of the reads fail."""

    def __init__(self, refuses_lists: bool = False) -> None:
        super().__init__()
        self.calls: list[list[str]] = []
        self.refuses_lists = refuses_lists

    def read_columns(self, file_format: str, paths: Any, columns: Any, groups: Any = None) -> Any:
        self.calls.append([Path(path).name for path in paths])
        if self.refuses_lists and len(paths) > 1:
            raise RuntimeError("All sources must have the same schema")
        return super().read_columns(file_format, paths, columns, groups)


def three_files(folder: Path) -> Source:
    for i in range(3):
        pq.write_table(pa.table({"c": ["b", "a"], "n": [i, None]}), folder / f"{i}.parquet")
    return Source(path=str(folder))


def test_parquet_files_of_one_schema_are_read_in_one_call(tmp_path: Path) -> None:
    device = RecordingDevice()
    assert compare(three_files(tmp_path), device).column("n").tolist()[::2] == [0, 1, 2]
    assert device.calls == [["0.parquet", "1.parquet", "2.parquet"]]


def test_files_that_a_device_refuses_together_are_read_one_by_one(tmp_path: Path, backend: PandasBackend) -> None:
    """cuDF compares more than the types of the selected columns: also their order and unselected columns."""
    alone = [["0.parquet"], ["1.parquet"], ["2.parquet"]]
    source, device = three_files(tmp_path), RecordingDevice(refuses_lists=True)
    found, notes = on_device(source, device)
    assert_same_table(found, on_host(source, backend)[0])
    assert device.calls[1:] == alone
    assert notes == [
        "3 files were read one by one, which needs more memory; one call failed: All sources must have the same schema"
    ]
    pq.write_table(pq.read_table(tmp_path / "2.parquet").select(["n", "c"]), tmp_path / "2.parquet")
    device = RecordingDevice()
    compare(source, device)
    assert device.calls == alone


def test_of_several_parquet_files_the_damaged_one_is_named(tmp_path: Path) -> None:
    source, path = three_files(tmp_path), tmp_path / "1.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(60) + content[64:])
    with pytest.raises(DataError) as refused:
        on_device(source, RecordingDevice())
    assert refused.value.where == str(path)


class ZonelessDevice(PandasBackend):
    """pandas that reads times with a time zone in UTC, as cuDF does."""

    def read_columns(self, *arguments: Any) -> Any:
        found = super().read_columns(*arguments)
        return found.assign(t=found.t.astype(pd.ArrowDtype(pa.timestamp("us"))))


def test_times_keep_their_time_zone_although_a_device_drops_it(tmp_path: Path) -> None:
    times = pa.array([0, None, 5], pa.timestamp("us", "America/New_York"))
    pq.write_table(pa.table({"t": times, "n": [1, 2, 3]}), tmp_path / "t.parquet")
    source = Source(path=str(tmp_path / "t.parquet"), where="t < '1970-01-02' or n == 2")
    found = compare(source, ZonelessDevice())
    assert found.schema["t"].dtype == "timestamp[us, tz=America/New_York]" and found.n_rows == 3


def test_nested_columns_are_dropped_with_a_note(tmp_path: Path, backend: PandasBackend) -> None:
    pq.write_table(pa.table({"l": [[1], []], "n": [1, 2]}), tmp_path / "t.parquet")
    assert compare(Source(path=str(tmp_path / "t.parquet")), backend).schema.names == ("n",)


@pytest.mark.parametrize("kind", [pa.uint64(), pa.decimal128(38, 0)], ids=str)
def test_columns_whose_digits_only_the_host_keeps_are_read_there(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"n": pa.array([7, None], kind)}), tmp_path / "t.parquet")
    assert str(kind) in obstacle_of(Source(path=str(tmp_path / "t.parquet")))


@pytest.mark.parametrize("kind", ["categorical", "text", "boolean", "float", None])
def test_a_column_of_nulls_without_a_type_is_one_of_missing_values(
    tmp_path: Path, backend: PandasBackend, kind: str | None
) -> None:
    pq.write_table(pa.table({"x": pa.nulls(2), "n": [1, 2]}), tmp_path / "t.parquet")
    source = Source.model_validate({"path": str(tmp_path / "t.parquet"), "schema": {"x": kind} if kind else {}})
    compare(source, backend)
    pq.write_table(pa.table({"x": pa.nulls(2)}), tmp_path / "t.parquet")
    assert "all columns have the null type" in obstacle_of(Source(path=str(tmp_path / "t.parquet")))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_levels_after_a_filter_do_not_depend_on_row_groups(tmp_path: Path, backend: PandasBackend, size: int) -> None:
    table = pa.table({"y": [1, 2, 3, 4], "z": ["a", "b", "c", "d"]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=size)
    source = Source(path=str(tmp_path / "t.parquet"), where="y in [1, 4]")
    assert compare(source, backend).schema["z"].levels == ("a", "d")


def test_the_index_that_pandas_wrote_is_a_column(tmp_path: Path, backend: PandasBackend) -> None:
    pd.DataFrame({"n": [1, 2]}, index=pd.Index(["a", "b"], name="key")).to_parquet(tmp_path / "t.parquet")
    assert compare(Source(path=str(tmp_path / "t.parquet")), backend).schema.names == ("n", "key")


def test_identifiers_of_more_customers_than_one_array_has_are_the_hosts() -> None:
    source = Source(generate="churn", rows=MOST_IDS + 1, target="Churn")
    with pytest.raises(UnsupportedOnDevice, match="customerID for more than 214,748,364 customers"):
        require_plain(source)
    require_plain(source.model_copy(update={"drop": ["customerID"]}))


def test_memory_that_runs_out_is_not_the_fault_of_the_file() -> None:
    with pytest.raises(MemoryError, match="out_of_memory"), guard_device_read(SourceFile("t.parquet", 0, 0, "parquet")):
        raise MemoryError("std::bad_alloc: out_of_memory")
    with pytest.raises(DataError, match=r"t\.parquet"), guard_device_read(SourceFile("t.parquet", 0, 0, "parquet")):
        raise RuntimeError("no magic bytes")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "t.jsonl").write_text('{"x": 1}\n')
    feather.write_feather(pa.table({"x": [1]}), tmp_path / "t.feather")
    (tmp_path / "year=2024").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "year=2024" / "p.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "int.pq")
    pq.write_table(pa.table({"x": [1.5]}), tmp_path / "float.pq")
    pq.write_table(pa.table({"x": pa.array([1], pa.decimal128(5, 2))}), tmp_path / "decimal.pq")
    pq.write_table(pa.table({"x": pa.array([0], pa.timestamp("ns"))}), tmp_path / "old.pq",
                   use_deprecated_int96_timestamps=True)  # fmt: skip
    pd.DataFrame({"x": [1]}).to_csv(tmp_path / "z.csv.gz", index=False)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"path": "int.pq"}, ""),
        ({"path": "int.pq", "where": "x > 0"}, ""),
        ({"path": "int.pq", "where": "x > 0 and x < y"}, "comparing two columns is not supported on the GPU: x < y"),
        ({"path": "int.pq", "prepare": "hook.py:f"}, "pandas.DataFrame"),
        ({"generate": "churn", "rows": 10}, ""),
        ({"generate": "churn", "rows": 10, "prepare": "hook.py:f"}, "pandas.DataFrame"),
        ({"path": "t.feather"}, "arrow files are not supported"),
        ({"path": "year=2024/p.parquet"}, ""),
        ({"path": "*/p.parquet"}, "hive-partitioned paths (year)"),
        ({"path": ["int.pq", "float.pq"]}, "different columns or types"),
        ({"path": "decimal.pq"}, "decimal128(5, 2)"),
        ({"path": "old.pq"}, "column 'x': type"),
    ],
    ids=str,
)
def test_the_first_reason_to_read_on_the_host_is_named(files: Path, source: dict[str, Any], why: str) -> None:
    found = obstacle_of(Source(**source))
    assert why in found and bool(found) == bool(why)


@pytest.mark.parametrize(
    ("table", "why"), [({"path": "float.pq"}, ""), ({"path": "t.feather"}, "arrow"), ({"generate": "churn"}, "")]
)
def test_so_are_those_of_a_table_that_is_joined(files: Path, table: dict[str, Any], why: str) -> None:
    joined = {"b": JoinedTable(**table, on="x", cardinality="many_to_one")}
    found = obstacle_of(Source(path="int.pq"), joined)
    assert why in found and bool(found) == bool(why)
    events = {"b": JoinedTable(**table, on="x", cardinality="one_to_many")}
    assert obstacle_of(Source(path="int.pq"), events) == ""


@pytest.mark.parametrize(
    ("source", "table", "expected"),
    [
        ({"path": "a.csv"}, None, True),
        ({"path": ["a.csv", "int.pq"]}, None, True),
        ({"path": "z.csv.gz"}, None, True),
        ({"path": "t.jsonl"}, None, True),
        ({"frame": pd.DataFrame({"x": [1]})}, None, True),
        ({"path": "t.feather"}, None, False),
        ({"generate": "churn", "rows": 10}, None, False),
        ({"path": "int.pq"}, ("a.csv", "many_to_one"), True),
        ({"path": "int.pq"}, ("a.csv", "one_to_many"), False),
        ({"path": "a.csv"}, ("int.pq", "many_to_one"), True),
    ],
    ids=str,
)
def test_text_and_tables_in_memory_are_read_on_the_host_by_design(
    files: Path, source: dict[str, Any], table: tuple[str, Any] | None, expected: bool
) -> None:
    tables = {} if table is None else {"b": JoinedTable(path=table[0], on="x", cardinality=table[1])}
    assert is_read_on_host(InputFiles.find(Source(**source), tables), tables) is expected


CONFIG = """
source: {{path: {path}, target: y, drop: ["@text"]{more}}}
models: [logistic_regression]
"""


def config_of(folder: Path, more: str = "") -> Any:
    names = [f"name {i}" for i in range(60)]
    pq.write_table(pa.table({"n": range(60), "m": [3] * 60, "y": ["a", "b"] * 30, "name": names}), folder / "t.parquet")
    (folder / "c.yaml").write_text(CONFIG.format(path=folder / "t.parquet", more=more))
    return load_config(folder / "c.yaml")


def test_a_stage_of_the_pipeline_reads_on_the_device_what_it_can(tmp_path: Path, backend: PandasBackend) -> None:
    config, device = config_of(tmp_path), PandasDevice()
    read, expected = read_table(config, device), read_table(config, backend)
    assert read.table.schema == expected.table.schema and read.notes == expected.notes
    assert read.table.schema.names == ("n", "m", "y")
    assert device.fallbacks() == []


def test_what_it_cannot_is_refused_where_falling_back_is_forbidden(tmp_path: Path) -> None:
    with pytest.raises(DeviceError) as refused:
        read_table(config_of(tmp_path, ', where: "n > m"'), PandasDevice())
    assert refused.value.exit_code == 4
    assert "comparing two columns is not supported" in str(refused.value) and "read: source.where" in str(refused.value)


def test_an_unsupported_filter_falls_back_to_the_host_with_a_note(tmp_path: Path, backend: PandasBackend) -> None:
    config, device = config_of(tmp_path, ', where: "n > m"'), PandasDevice("allow")
    assert_same_table(read_table(config, device).table, read_table(config, backend).table)
    assert ["comparing two columns is not supported" in line for line in device.fallbacks()] == [True]


def test_an_encoded_table_in_the_cache_is_taken_from_there(tmp_path: Path, backend: PandasBackend) -> None:
    config, device = config_of(tmp_path, f", cache: {tmp_path / 'cache'}"), PandasDevice()
    fresh = read_table(config, device)
    assert fresh.notes == () and not (tmp_path / "cache").exists()  # a device keeps nothing
    kept = read_table(config, backend)
    found = read_table(config, device)
    assert "found in the cache" in found.notes[0]
    assert_same_table(found.table, kept.table)
    assert device.fallbacks() == []


def test_generated_customers_and_events_are_joined_where_they_are_read(tmp_path: Path, backend: PandasBackend) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "source: {generate: churn_events, rows: 60, target: amount}\nmodels: [ridge]\ntables:\n"
        "  who: {generate: churn, rows: 60, on: customerID, cardinality: many_to_one, drop: [Churn]}\n"
    )
    config, device = load_config(path), PandasDevice()
    read, expected = read_table(config, device), read_table(config, backend)
    assert_same_table(read.table, expected.table)
    assert read.notes == expected.notes and device.fallbacks() == []
    said = [
        "churn_events: generated on the host, then copied to the device",
        "churn: generated on the host, then copied to the device",
    ]
    assert device.take_notes() == said


GENERATED: list[dict[str, Any]] = [
    {"target": "Churn", "drop": ["customerID"]},
    {},
    {"rows": 40, "seed": 2**64 - 1},
    {"schema": {"customerID": "categorical", "tenure": "categorical", "Contract": "text"}},
    {"where": "tenure > 10 and Contract != 'One year' and Age is not None", "columns": ["*Charges", "City"]},
    {"where": "customerID > '5'", "generate": "churn_events", "columns": ["event_*", "amount"]},
    {"generate": "churn_events"},
]


@pytest.mark.parametrize("source", GENERATED, ids=str)
def test_what_a_generator_makes_is_the_same(backend: PandasBackend, source: dict[str, Any]) -> None:
    compare(Source(**{"generate": "churn", "rows": 900, **source}), backend)


def test_customers_without_events_are_an_error(backend: PandasBackend) -> None:
    for read in (on_host, on_device):
        with pytest.raises(DataError, match="there are no rows"):
            read(Source(generate="churn_events", rows=1, seed=25), backend)
