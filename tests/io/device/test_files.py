"""Several CSV files read on a device, compared with the host's table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from gpupipe.errors import DataError, GpupipeError, SchemaError
from gpupipe.io.device.obstacles import UnsupportedOnDevice
from gpupipe.io.device.source_reader import read_frame
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow
from tests.backends.pandas_double import PandasBackend
from tests.examples import examples
from tests.io.device.test_source_reader import FIELDS, assert_same_table, compare, on_device, on_host


@pytest.fixture(scope="module")
def backend() -> PandasBackend:
    return PandasBackend()


def source_of(folder: Path, contents: list[str], **options: Any) -> Source:
    paths = [folder / f"{i}.csv" for i in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content, encoding="utf8", newline="")
    return Source(path=[str(path) for path in paths], **options)


@pytest.mark.parametrize(
    ("contents", "dtypes"),
    [
        (["x,y\n1,a\n2,b\n", "x,y\n3,c\n"], ["int64", "string"]),
        (["x\n1\n9007199254740993\n", "x\n1.5\n"], ["double"]),
        (["x\n536365\n", "x\n 7 \nC536379\n"], ["string"]),
        (["x\ntrue\n", "x\nmaybe\n"], ["string"]),
        (["x\n2024-01-31\n", "x\n\nsoon\n"], ["string"]),
        (["x\n2024-01-31\n", "x\n2024-02-01 10:00:00\n"], ["timestamp[us]"]),
        (["x\ntrue\n", "x\nfalse\n"], ["bool"]),
        (["x\n10:20\n", "x\n11:30\n"], ["double"]),
        (["x,y\n,1\n,2\n", "x,y\n3,4\n"], ["int64", "int64"]),
        (["x,y\n,1\nNA,2\n", "x,y\na,4\n"], ["string", "int64"]),
        (["x,y\n,1\n", "x,y\nNA,2\n"], ["double", "int64"]),
        (["x,y\n,1\n", "x,y\nNA ,2\n"], ["int64", "int64"]),
        (["x,y\n1,a\n", "y,x\nb,2\n"], ["int64", "string"]),
        (["x,y\n1,a\n", "z,x\ntrue,2\n"], ["int64", "string", "bool"]),
        (["x,y\n1,a\n", "x;y\n1.5;b\n"], ["double", "string"]),
        (["x\n", "x\n1\n"], ["int64"]),
        (["", "x\n1\n", "x\n\n", "x\n2.5\n"], ["double"]),
        (["x\n+5\n", "x\n7\n"], ["double"]),
        (['x\n"1\n2"\n', "x\r\nb\r\n"], ["string"]),
    ],
    ids=str,
)  # fmt: skip
def test_files_are_put_together_as_on_the_host(
    tmp_path: Path, backend: PandasBackend, contents: list[str], dtypes: list[str]
) -> None:
    found = compare(source_of(tmp_path, contents), backend)
    assert [column.dtype for column in found.schema] == dtypes


@pytest.mark.parametrize(
    "options",
    [{"columns": ["x"]}, {"drop": ["x"]}, {"schema": {"x": "categorical"}}, {"schema": {"x": "text"}},
     {"schema": {"y": "float"}}, {"where": "y > 1"}, {"where": "x is not None"}, {"where": "z == 'a' or y == 1.5"},
     {"csv": {"null_values": ["1", "C7"]}}, {"csv": {"strip": False}}, {"target": "z"}],
    ids=str,
)  # fmt: skip
def test_settings_mean_the_same(tmp_path: Path, backend: PandasBackend, options: dict[str, Any]) -> None:
    contents = ["x,y\n1,1\n 1,2\n", "x,y,z\nC7,1.5,a\n C7, 1,\n", "x,y,z\nNA,-3,b\n"]
    compare(source_of(tmp_path, contents, **options), backend)


@pytest.mark.parametrize(
    "contents", [["x\n1\n", "x\ntrue\n"], ["x,y\n1,1\n", "x,y\n2024-01-31,1\n"], ["x\ntrue\n", "x\n2024-01-31\n"]]
)
def test_types_without_a_common_type_are_refused_alike(
    tmp_path: Path, backend: PandasBackend, contents: list[str]
) -> None:
    source = source_of(tmp_path, contents)
    with pytest.raises(SchemaError) as expected:
        on_host(source, backend)
    with pytest.raises(SchemaError) as refused:
        on_device(source, backend)
    assert str(refused.value) == str(expected.value)


def test_files_without_rows_are_refused(tmp_path: Path, backend: PandasBackend) -> None:
    with pytest.raises(DataError, match="there are no rows"):
        read_frame(source_of(tmp_path, ["x\n", ""]), backend)


def test_a_file_without_a_wanted_column_is_named(tmp_path: Path, backend: PandasBackend) -> None:
    with pytest.raises(SchemaError, match=r"1\.csv"):
        read_frame(source_of(tmp_path, ["x\n1\n", "y\n1\n"], columns=["x"]), backend)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=4), min_size=2, max_size=3),
    same=st.booleans(),
)
def test_files_of_any_fields_are_the_same_or_refused_alike(
    tmp_path: Path, backend: PandasBackend, files: list, same: bool
) -> None:
    files = [[(a, rows[0][1]) if same else (a, b) for a, b in rows] for rows in files]
    contents = [
        '"first","second"\n'
        + "".join(",".join(f'"{v.replace(chr(34), chr(34) * 2)}"' for v in row) + "\n" for row in rows)
        for rows in files
    ]
    source = source_of(tmp_path, contents, csv={"delimiter": ","})
    try:
        on_host(source, backend)
    except GpupipeError as error:
        with pytest.raises(type(error)) as refused:
            on_device(source, backend)
        assert refused.value.what == error.what
    else:
        compare(source, backend)


@pytest.mark.parametrize(
    "content",
    ["|1x3 Cross validator\n1,2\n3,4\n", "1,2\n1\n3,4\n\n5,6,7\n", '1,"a\nb"\n"1\n"\n3,4', "1,2\r\n3\r\n4,5\r\n9"],
)
def test_rows_with_another_number_of_fields_are_skipped_and_counted(
    tmp_path: Path, backend: PandasBackend, content: str
) -> None:
    options = {"bad_rows": "skip", "names": ["x", "y"], "delimiter": ","}
    source = source_of(tmp_path, [content, "7,8\n"], csv=options)
    compare(source, backend)
    assert any("a wrong number of fields" in note for note in read_arrow(source).notes)


@pytest.mark.parametrize("twice", [False, True])
def test_they_are_counted_once_though_a_file_is_read_again_as_text(
    tmp_path: Path, backend: PandasBackend, twice: bool
) -> None:
    source = source_of(tmp_path, ["x,y\n1,1\n2\n", "x,y\nC7,2\n3,4,5\n"], csv={"bad_rows": "skip"})
    source = source.model_copy(update={"path": (*source.paths, *source.paths)}) if twice else source
    compare(source, backend)
    (line,) = [note for note in read_arrow(source).notes if note.startswith("skipped")]
    assert line.startswith(f"skipped {4 if twice else 2} rows")


def test_a_file_of_nothing_but_such_rows_has_no_rows(tmp_path: Path, backend: PandasBackend) -> None:
    source = source_of(tmp_path, ["x,y\n1\n2\n", "x,y\n1,2\n"], csv={"bad_rows": "skip", "delimiter": ","})
    compare(source, backend)


def test_they_are_an_obstacle_if_they_are_errors(tmp_path: Path, backend: PandasBackend) -> None:
    with pytest.raises(UnsupportedOnDevice, match="a wrong number of fields"):
        read_frame(source_of(tmp_path, ["x,y\n1,2\n", "x,y\n1\n2,3\n"], csv={"delimiter": ","}), backend)


def test_many_texts_copied_to_the_host_are_noted(tmp_path: Path, backend: PandasBackend) -> None:
    rows = "\n".join(f"{i}e0" for i in range(20_000))
    found, said = on_device(source_of(tmp_path, [f"x\n{rows}\n"]), backend)
    assert found.schema["x"].kind == "numeric"
    assert [line for line in said if "bytes of text were copied to the host" in line]


@pytest.mark.data
def test_a_folder_of_public_files_is_the_same(data_dir: Path, backend: PandasBackend) -> None:
    names = ["2010-12-01.csv", "2010-12-02.csv", "2010-12-03.csv"]
    source = Source(path=[str(data_dir / "online-retail" / "by-day" / name) for name in names])
    expected, notes = on_host(source, backend)
    found, said = on_device(source, backend)
    assert_same_table(found, expected)
    assert sorted(said) == sorted(notes)
