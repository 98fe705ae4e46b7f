"""Parquet files read in chunks give the same table and notes as reading them at once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from gpupipe.backends import Backend, DeviceOptions, MemoryFigures, choose
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.backends.gpu.backend import GpuBackend, _Meter
from gpupipe.config import load_config
from gpupipe.datasets.churn import write
from gpupipe.errors import DataError, GpupipeError, SchemaError
from gpupipe.io.chunks.parquet_stream import ParquetStream, open_parquet_stream
from gpupipe.io.settings import JoinedTable, Source
from gpupipe.io.source_reader import read_arrow
from gpupipe.plan import costs
from gpupipe.plan.planner import Ledger, Planner
from gpupipe.plan.preview import preview
from gpupipe.table.blocks import Table
from gpupipe.table.encode import encode
from gpupipe.table.encode_chunks import encode_chunks
from gpupipe.training.preparation.read_stage import read_table
from gpupipe.units import GIB
from tests.backends.pandas_double import PandasBackend


@pytest.fixture(scope="module")
def backend() -> Backend:
    return choose("cpu")


class SmallMachine(CpuBackend):
    """A host that has little memory left."""

    available = 1

    def memory(self) -> MemoryFigures:
        return replace(super().memory(), available=self.available)


def assert_same(got: Table, expected: Table) -> None:
    assert got.schema == expected.schema
    assert (got.n_rows, dict(got.places)) == (expected.n_rows, dict(expected.places))
    assert list(got.blocks) == list(expected.blocks)
    for name, block in expected.blocks.items():
        assert got.blocks[name].dtype == block.dtype and got.blocks[name].tobytes() == block.tobytes(), name
    assert list(got.texts) == list(expected.texts)
    assert all(got.texts[name].to_pylist() == text.to_pylist() for name, text in expected.texts.items())


def streamed(source: Source, available: int = 1) -> ParquetStream:
    stream = open_parquet_stream(source, {}, available)
    assert stream is not None
    return stream


def compare(source: Source, backend: Backend, available: int = 1) -> ParquetStream:
    """Read both ways; both refuse with the same class of error, or both give the same table and notes."""
    try:
        loaded = read_arrow(source)
        expected = encode(loaded.table, backend, source.declarations())
    except GpupipeError as error:
        with pytest.raises(type(error)):
            stream = streamed(source, available)
            encode_chunks(stream.tables, backend, stream.n_rows, source.declarations())
        raise
    stream = streamed(source, available)
    assert_same(encode_chunks(stream.tables, backend, stream.n_rows, source.declarations()), expected)
    assert sorted(stream.notes) == sorted(loaded.notes)
    return stream


def as_parquet(csv: Path, path: Path, rows: int, names: list[str] | None = None, **options: Any) -> Path:
    layout = arrow_csv.ReadOptions(column_names=names)
    pq.write_table(arrow_csv.read_csv(csv, layout), path, row_group_size=rows, **options)
    return path


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    whole, path = tmp_path_factory.mktemp("churn") / "whole.parquet", tmp_path_factory.mktemp("churn") / "churn.parquet"
    write(whole, 60_000)
    pq.write_table(pq.read_table(whole), path, row_group_size=5_000)
    return path


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.4])
def test_parts_of_every_size_make_the_same_table(churn: Path, backend: Backend, share: float) -> None:
    source = Source(path=str(churn), target="Churn")
    n_bytes = streamed(source).decoded_bytes
    stream = compare(source, backend, available=int(8 * share * n_bytes))
    assert stream.n_chunks == {0.0: 12, 0.1: 12, 0.3: 4, 0.4: 3}[share]


@pytest.mark.data
@pytest.mark.parametrize("rows", [1_000, 3_333])
@pytest.mark.parametrize(
    ("csv", "options"),
    [
        ("telco-churn/Telco-Customer-Churn.csv", {}),
        ("telco-churn/Telco-Customer-Churn.csv", {"use_dictionary": False}),
        ("nyc-taxi/nyc_taxi.csv", {"use_deprecated_int96_timestamps": True}),
        ("diamonds/diamonds.csv", {"use_dictionary": False, "column_encoding": {"cut": "DELTA_BYTE_ARRAY"}}),
        ("chicago-taxi/chicago_taxi.csv", {"compression": "zstd", "dictionary_pagesize_limit": 1_000}),
        ("adult-income/adult.data", {}),
    ],
)
def test_public_tables_in_parts(
    data_dir: Path, tmp_path: Path, backend: Backend, csv: str, options: dict[str, Any], rows: int
) -> None:
    names = [f"c{i}" for i in range(15)] if csv.startswith("adult") else None
    compare(Source(path=str(as_parquet(data_dir / csv, tmp_path / "t.parquet", rows, names, **options))), backend)


def test_several_files_with_partitions_and_an_empty_one(churn: Path, tmp_path: Path, backend: Backend) -> None:
    table = pq.read_table(churn).slice(0, 3_000)
    for i, (year, rows) in enumerate([("2023", 1_000), ("2024", 0), ("2024", 2_000)]):
        folder = tmp_path / f"year={year}" / f"kind=k{i % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(i * 500, rows), folder / f"{i}.parquet", row_group_size=700)
    stream = compare(Source(path=str(tmp_path), target="Churn"), backend)
    assert stream.n_chunks == 5
    assert [note for note in stream.notes if "no rows" in note]


def test_a_filter_drops_rows_and_whole_parts(churn: Path, backend: Backend) -> None:
    source = Source(path=str(churn), where="tenure > 60 and Contract == 'Two year'", drop=["tenure"])
    compare(source, backend)
    with pytest.raises(DataError, match="no row passes"):
        compare(Source(path=str(churn), where="tenure > 1e9"), backend)
    with pytest.raises(SchemaError, match="no such column"):
        compare(Source(path=str(churn), columns=["tenure", "Contrakt"]), backend)


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_levels_of_filtered_rows_are_dropped(tmp_path: Path, backend: Backend, use_dictionary: bool) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"day": [1, 1, 2, 1], "x": ["a", "b", "c", "d"]})
    pq.write_table(table, path, row_group_size=2, use_dictionary=use_dictionary)
    source = Source(path=str(path), where="day == 2")
    stream = compare(source, backend)
    assert encode_chunks(stream.tables, backend, 4).schema["x"].levels == ("c",)


def test_notes_of_chunks_match_those_of_all_rows(tmp_path: Path, backend: Backend) -> None:
    late = 10**13  # seconds: in the year 318857
    table = pa.table(
        {
            "b": pa.array([1, 1, 1, late]).cast(pa.timestamp("s")),
            "a": pa.array([late, 1, 1, 1]).cast(pa.timestamp("s")),
            "z": ["n/a", "x", "NULL", "x"],
            "y": ["", "x", "x", "nan"],
            "list": [[1], [2], [3], [4]],
            "wait": pa.array([1, 2, 3, None], pa.duration("ms")),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1)
    stream = compare(Source(path=str(tmp_path / "t.parquet")), backend)
    assert len(stream.notes.lines()) == 6


@pytest.mark.data
def test_every_arrow_type_gives_the_same_table_or_is_read_at_once(data_dir: Path, tmp_path: Path) -> None:
    backend, seen = choose("cpu"), 0
    for file in sorted((data_dir / "parquet-types" / "data").glob("*.parquet")):
        path = tmp_path / file.name
        if file.name.startswith("large_string_map"):  # two texts of a gigabyte
            continue
        try:
            table = pq.read_table(file)
            pq.write_table(table, path, row_group_size=max(1, table.num_rows // 3))
            source = Source(path=str(path))
            if open_parquet_stream(source, {}, 1) is None:
                continue
        except (pa.ArrowException, OSError, GpupipeError):  # no table that the host reads either
            continue
        compare(source, backend)
        seen += 1
    assert seen >= 10


@pytest.mark.parametrize(
    "settings",
    [
        {"generate": "churn"},
        {"path": "telco.csv"},
        {"path": "bytes.parquet"},
        {"path": "unlike"},
        {"path": "folders"},
        {"path": "one.parquet"},
        {"path": "plain.parquet", "prepare": "hook.py:clean"},
    ],
)
def test_unsplittable_files_are_not_read_in_chunks(tmp_path: Path, settings: dict[str, Any]) -> None:
    (tmp_path / "telco.csv").write_text("x\n1\n")
    (tmp_path / "hook.py").write_text("def clean(frame): return frame")
    rows = pa.table({"x": [1, 2, 3]})
    pq.write_table(rows, tmp_path / "plain.parquet", row_group_size=1)
    pq.write_table(rows, tmp_path / "one.parquet")
    pq.write_table(pa.table({"x": [b"a", b"b"]}), tmp_path / "bytes.parquet", row_group_size=1)
    for folder in ("folders", "folders/day=1"):
        (tmp_path / folder).mkdir()
        pq.write_table(rows, tmp_path / folder / "part.parquet", row_group_size=1)
    (tmp_path / "unlike").mkdir()
    pq.write_table(rows, tmp_path / "unlike" / "a.parquet", row_group_size=1)
    pq.write_table(rows.cast(pa.schema({"x": pa.float64()})), tmp_path / "unlike" / "b.parquet")
    assert open_parquet_stream(Source.model_validate(settings), {}, 1) is None


def test_tables_that_fit_or_are_joined_are_read_at_once(churn: Path) -> None:
    source = Source(path=str(churn))
    assert open_parquet_stream(source, {}, 64 * GIB) is None
    joined = JoinedTable(path=str(churn), on="customerID", cardinality="many_to_one")
    assert open_parquet_stream(source, {"other": joined}, 1) is None


def test_a_damaged_file_is_refused_by_name(churn: Path, tmp_path: Path, backend: Backend) -> None:
    path = tmp_path / "damaged.parquet"
    content = bytearray(churn.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4_000] = bytes(4_000)
    path.write_bytes(content)
    stream = streamed(Source(path=str(path)))
    with pytest.raises(DataError, match=r"damaged\.parquet"):
        encode_chunks(stream.tables, backend, stream.n_rows)


def test_a_run_reads_in_chunks_with_a_note_if_memory_is_short(churn: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"source:\n  path: {churn}\n  target: Churn\n  cache: {tmp_path / 'kept'}\n")
    small, large = SmallMachine(), CpuBackend()
    found = read_table(load_config(config), small)
    assert [note.split(":")[0] for note in small.take_notes()] == ["read in 12 chunks"]
    (again,) = read_table(load_config(config), large).notes
    assert "found in the cache" in again
    assert not large.take_notes()
    loaded = read_arrow(load_config(config).source)
    assert_same(found.table, encode(loaded.table, large))
    assert list(found.notes) == loaded.notes.lines()


def test_the_plan_reports_the_number_of_chunks_and_the_size_of_one(churn: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"source: {{path: {churn}, target: Churn, cache: false}}\nmodels: [gaussian_nb]\n")
    read = {}
    for available in (1, GIB):
        planner = Planner(load_config(config), preview(load_config(config)), "", Ledger(GIB), available=available)
        planner.walk()
        read[available] = planner.stages[0]
    assert (read[1].parts, read[GIB].parts) == (12, 1)
    assert read[1].notes[-1].startswith("read in 12 chunks")
    arrow = read_arrow(load_config(config).source).table.nbytes
    assert 0.8 * arrow < read[GIB].peak_host_bytes - read[1].peak_host_bytes < 1.2 * arrow
    small = Planner(planner.config, planner.seen, "", Ledger(GIB), Ledger(costs.DEVICE_CONTEXT + 1))
    small.walk()
    assert (small.stages[0].device, small.stages[0].parts) == ("gpu", 12)


class SmallDevice(PandasBackend):
    """pandas in the place of cuDF, with little memory, and with the GPU's rule of what may fall back."""

    name = "gpu"
    free = 1

    def __init__(self) -> None:
        super().__init__()
        self.options, self._meter = DeviceOptions(fallback="forbid"), _Meter()

    fall_back = GpuBackend.fall_back

    def free_bytes(self) -> int:
        return self.free


def assert_same_on_device(got: Table, expected: Table) -> None:
    assert got.schema == expected.schema
    assert (got.n_rows, dict(got.places), set(got.blocks)) == (
        expected.n_rows,
        dict(expected.places),
        set(expected.blocks),
    )
    for name, block in expected.blocks.items():
        np.testing.assert_array_equal(got.blocks[name], block, strict=True)  # a missing number may be any NaN
    nulls = {name: (len(text), text.null_count) for name, text in expected.texts.items()}
    assert {name: (len(text), text.null_count) for name, text in got.texts.items()} == nulls


DEVICE_SETTINGS = [
    "",
    ", where: tenure > 60 and Contract == 'Two year'",
    ", schema: {tenure: categorical, gender: text, SupportCalls: boolean}, where: SupportCalls <= 1",
    ", schema: {customerID: categorical, tenure: {kind: datetime, format: s}, MonthlyCharges: text}",
]


@pytest.mark.parametrize("settings", DEVICE_SETTINGS)
def test_a_device_reads_in_chunks_the_same_as_the_host_at_once(churn: Path, tmp_path: Path, settings: str) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"source: {{path: {churn}, target: Churn, cache: false{settings}}}\n")
    loaded, device, backend = load_config(config), SmallDevice(), CpuBackend()
    found = read_table(loaded, device)
    assert [note.split(":")[0] for note in device.take_notes()] == ["read in 12 chunks"]
    assert_same_on_device(found.table, read_table(loaded, backend).table)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_rare_values_are_the_same_on_a_device(tmp_path: Path, rows: int) -> None:
    table = pa.table(
        {
            "z": ["n/a", "x", "NULL", "x", None, "y"],
            "a": [None, None, None, None, 2**40, 1],
            "f": [1.5, None, float("nan"), 1e38, -0.0, float("inf")],
            "flag": [True, False, True, True, True, None],
            "day": pa.array([0, 1, 2, 3, None, 5], pa.date32()),
            "none": pa.nulls(6),
            "old": pa.array([1, 2, 3, 4, 5, 6], pa.timestamp("ns")),
            "when": ["01/02/2024", "03/04/2024", "", "31/12/2024", "05/06/2024", None],
            "number": ["1", " 2 ", None, "", "1e3", "5"],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=rows)
    pq.write_table(table.slice(0, 0), tmp_path / "b.parquet")
    config = tmp_path / "c.yaml"
    config.write_text(f"source: {{path: '{tmp_path}/*.parquet', schema: {{when: datetime, number: float}}}}\n")
    loaded, device = load_config(config), SmallDevice()
    found, expected = read_table(loaded, device), read_table(loaded, CpuBackend())
    assert device.take_notes()
    assert_same_on_device(found.table, expected.table)
    assert sorted(found.notes) == sorted(expected.notes)


def test_a_device_names_the_row_and_the_place_of_its_part(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": ["1", "2", "3", "four"]}), tmp_path / "t.parquet", row_group_size=1)
    config = tmp_path / "c.yaml"
    config.write_text(f"source: {{path: {tmp_path}/t.parquet, schema: {{x: float}}}}\n")
    with pytest.raises(SchemaError, match=r"found 'four' in data row 3\n"):
        read_table(load_config(config), SmallDevice())
    config.write_text(f"source: {{path: {tmp_path}/t.parquet, where: x == 'five'}}\n")
    with pytest.raises(DataError, match="no row passes"):
        read_table(load_config(config), SmallDevice())


PEAK = """
import sys
from gpupipe.backends import choose
from gpupipe.io.source_reader import read_arrow
from gpupipe.io.settings import Source
from gpupipe.io.chunks.parquet_stream import open_parquet_stream
from gpupipe.table.encode import encode
from gpupipe.table.encode_chunks import encode_chunks

backend, source = choose("cpu"), Source(path=sys.argv[2], drop=["customerID"])
before = backend.memory().peak
if sys.argv[1] == "parts":
    stream = open_parquet_stream(source, {}, 1)
    encode_chunks(stream.tables, backend, stream.n_rows)
else:
    encode(read_arrow(source).table, backend)
print(backend.memory().peak - before)
"""


@pytest.mark.nightly
def test_the_peak_is_lower_by_most_of_the_arrow_table(tmp_path: Path) -> None:
    path = tmp_path / "churn.parquet"
    write(tmp_path / "small.parquet", 50_000)
    part = pq.read_table(tmp_path / "small.parquet")
    with pq.ParquetWriter(path, part.schema) as writer:
        for _ in range(20):
            writer.write_table(part)
    at_once, in_parts_of_it = (
        int(subprocess.run([sys.executable, "-c", PEAK, how, str(path)], capture_output=True, check=True).stdout)
        for how in ("whole", "parts")
    )
    arrow = read_arrow(Source(path=str(path), drop=["customerID"])).table.nbytes
    assert at_once - in_parts_of_it > 0.5 * arrow
