"""CSV files read in chunks on a device, compared with the host reading them at once."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gpupipe.config import load_config
from gpupipe.errors import GpupipeError
from gpupipe.io.device.csv import chunks as csv_chunks
from gpupipe.io.device.csv.chunks import chunk_bytes, regular_chunks
from gpupipe.io.device.obstacles import UnsupportedOnDevice
from gpupipe.io.device.source_reader import read_frame
from gpupipe.io.files import SourceFile
from gpupipe.io.formats.csv.header import CsvHeader
from gpupipe.io.settings import Source
from gpupipe.plan.planner import Ledger, Planner
from gpupipe.plan.preview import preview
from gpupipe.training.preparation.read_stage import read_table
from tests.backends.pandas_double import PandasBackend
from tests.examples import examples
from tests.io.device.test_files import source_of
from tests.io.device.test_source_reader import CSV, FIELDS, PandasDevice, compare, on_device, on_host, text_file


@pytest.fixture(scope="module")
def backend() -> PandasBackend:
    return PandasBackend()


@pytest.fixture
def rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce chunks to one row each."""
    monkeypatch.setattr(csv_chunks, "CHUNK_BYTES", 1)


class CountingDevice(PandasBackend):
    """Recorder of the columns and the number of rows of each read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[list[str], int]] = []

    def read_texts(self, content: BytesIO, names: Any, columns: Any, delimiter: str, quote: str | None) -> Any:
        found = super().read_texts(content, names, columns, delimiter, quote)
        self.reads.append((list(columns), len(found)))
        return found


@pytest.mark.data
@pytest.mark.parametrize("n_chunks", [2, 7])
@pytest.mark.parametrize("name", CSV)
def test_a_public_table_is_the_same(data_dir: Path, monkeypatch: pytest.MonkeyPatch, name: str, n_chunks: int) -> None:
    path, device = data_dir / name, CountingDevice()
    monkeypatch.setattr(csv_chunks, "CHUNK_BYTES", path.stat().st_size // n_chunks + 1)
    compare(Source(path=str(path)), device)
    assert len([columns for columns, _ in device.reads if columns == device.reads[0][0]]) >= n_chunks - 1


@pytest.mark.data
def test_a_messy_file_gives_the_same_table_or_falls_back_for_every_chunk_size(
    data_dir: Path, backend: PandasBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_same = 0
    for path in sorted((data_dir / "messy-csv").glob("*/**/*.csv")):
        if path.name == "wide.csv":  # thousands of columns, each read by Arrow
            continue
        source = Source(path=str(path))
        try:
            on_host(source, backend)
        except GpupipeError:
            continue
        monkeypatch.setattr(csv_chunks, "CHUNK_BYTES", path.stat().st_size // 3 + 1)
        try:
            compare(source, backend)
        except (UnsupportedOnDevice, GpupipeError):
            monkeypatch.setattr(csv_chunks, "CHUNK_BYTES", 1 << 30)
            with pytest.raises((UnsupportedOnDevice, GpupipeError)):
                on_device(source, backend)
            continue
        n_same += 1
    assert n_same >= 40


@pytest.mark.usefixtures("rows_alone")
@pytest.mark.parametrize(
    ("rows", "dtype"),
    [
        (["1", "", "2.5", "NA"], "double"),
        (["", "NA", "7"], "int64"),
        (["9007199254740993", "1", "9223372036854775807"], "int64"),
        (["9223372036854775807", "0.5"], "double"),
        (["1", "0", "true"], "bool"),
        (["2", "true"], "string"),
        (["536365", "C536379", "007"], "string"),
        (["2024-01-31", "2024-02-01 10:20:30"], "timestamp[us]"),
        (["2024-01-31", "5"], "string"),
        (["b", "a", "b", " a "], "string"),
        (["+5", "7"], "double"),
        (["", ""], "double"),
    ],
)
def test_the_type_follows_from_all_chunks(tmp_path: Path, backend: PandasBackend, rows: list[str], dtype: str) -> None:
    for order in (rows, rows[::-1]):
        source = text_file(tmp_path, "\n".join(["x,y", *(f"{row},1" for row in order)]))
        assert compare(source, backend).schema["x"].dtype == dtype


@pytest.mark.usefixtures("rows_alone")
@pytest.mark.parametrize(
    "content",
    [
        'x,y\n1,"a\nb"\n2,"c,""d"""\n3,e\n', "x,y\r\n1,a\r\n2,b\r\n", "x,y\n1,a\n2,b", "x,y\r\n1,a\r\n2,b",
        "\ufeffx,y\n1,a\n2,b\n", "x,y\n\n1,a\n\n\n2,b\n\n", "\n\nx,y\n1,2\n", 'x,y\n"1\n\n",\n\n"\n",b\n', "x\n1\n\n2",
        "x,y\n\ufeffa,1\n\ufeffb,2\nb,3\n",
    ],
    ids=repr,
)  # fmt: skip
def test_rows_end_where_they_do(tmp_path: Path, backend: PandasBackend, content: str) -> None:
    source = text_file(tmp_path, content)
    try:
        compare(source, backend)
    except UnsupportedOnDevice as obstacle:
        assert "several lines" in obstacle.what and content.startswith("\n")


@pytest.mark.usefixtures("rows_alone")
@pytest.mark.parametrize(
    "options",
    [{"schema": {"x": "text"}}, {"schema": {"x": "categorical", "y": "float"}}, {"where": "y > 1"},
     {"where": "x is not None and y < 3"}, {"columns": ["x"]}, {"csv": {"null_values": ["1", "C7"]}},
     {"csv": {"strip": False}}, {"csv": {"bad_rows": "skip"}}],
    ids=str,
)  # fmt: skip
def test_settings_and_several_files_mean_the_same(
    tmp_path: Path, backend: PandasBackend, options: dict[str, Any]
) -> None:
    contents = ["x,y\n1,1\n 1,2\n", "x,y,z\nC7,1.5,a\n C7, 1,\n", "x,y,z\nNA,-3,b\n"]
    if options.get("csv") == {"bad_rows": "skip"}:
        contents[1] += "1,2\n3\n5,6,7\n8,9,10,11\n"
    compare(source_of(tmp_path, contents, **options), backend)


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6),
    size=st.sampled_from([1, 8, 20]),
    end=st.sampled_from(["\n", "\r\n"]),
    ends=st.booleans(),
)
def test_fields_of_any_kind_are_the_same(
    tmp_path: Path, backend: PandasBackend, monkeypatch: pytest.MonkeyPatch, rows: list, size: int, end: str, ends: bool
) -> None:
    monkeypatch.setattr(csv_chunks, "CHUNK_BYTES", size)
    quoted = [",".join(f'"{v.replace(chr(34), chr(34) * 2)}"' for v in row) for row in rows]
    content = end.join(['"first","second"', *quoted]) + (end if ends else "")
    compare(text_file(tmp_path, content, csv={"delimiter": ","}), backend)


@pytest.mark.usefixtures("rows_alone")
def test_only_columns_that_turn_out_to_be_text_are_read_again(tmp_path: Path) -> None:
    """In x the text comes last: earlier numbers are read again. In y it comes first: all further values are text."""
    device = CountingDevice()
    compare(text_file(tmp_path, "x,y,z\n007,a,1\n8,008,2\nC9,9,3\n"), device)
    assert device.reads == [(["x", "y", "z"], 1)] * 3 + [(["x"], 1)] * 3


def test_chunks_are_whole_rows_and_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, backend = np.random.default_rng(0), PandasBackend()
    rows = ["x,y\n", *(str(i) + ',"' + "a,\n" * n + '"\n' for i, n in enumerate(rng.integers(0, 9, 50)))]
    path = tmp_path / "t.csv"
    path.write_text("".join(rows))
    file = SourceFile(str(path), path.stat().st_size, 0, "csv")
    for size in (1, 30, 100):
        monkeypatch.setattr(csv_chunks, "CHUNK_BYTES", size)
        chunks = list(regular_chunks(file, CsvHeader(["x", "y"], ",", 1), '"', backend))
        assert "".join(chunk.content(file).read().decode() for chunk in chunks) == "".join(rows[1:])
        assert sum(chunk.n_rows for chunk in chunks) == 50
        assert len(chunks) > 1000 // (size + 50)


def test_a_chunk_is_sized_by_memory() -> None:
    assert [chunk_bytes(free >> 20 << 20) >> 20 for free in (0, 1 << 33, 1 << 36)] == [1, 128, 256]


def test_rows_that_the_devices_reader_finds_otherwise_are_the_hosts(tmp_path: Path) -> None:
    class Short(PandasBackend):
        def read_texts(self, *given: Any) -> Any:
            return super().read_texts(*given).iloc[1:]

    with pytest.raises(UnsupportedOnDevice, match="expected 2 rows from the device reader, found 1"):
        read_frame(text_file(tmp_path, "x,y\n1,2\n3,4\n"), Short())


def test_the_run_and_the_plan_say_in_how_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_chunks, "CHUNK_BYTES", 2_000)
    rows = (f"{i:04d},{'ab'[i % 2]}\n" for i in range(2_000))  # of 7 bytes: 285 in a chunk
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(rows))
    config = tmp_path / "c.yaml"
    config.write_text(f"source: {{path: {tmp_path / 't.csv'}, target: y, cache: false}}\nmodels: [gaussian_nb]\n")
    loaded, device = load_config(config), PandasDevice()
    read_table(loaded, device)
    assert device.take_notes() == ["CSV read in 8 chunks"]
    planner = Planner(loaded, preview(loaded), "", Ledger(1 << 40), Ledger(1 << 40))
    planner.walk()
    assert (planner.stages[0].device, planner.stages[0].parts) == ("gpu", 8)
    assert planner.stages[0].notes[-1] == "CSV read in 8 chunks"
