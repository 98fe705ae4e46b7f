"""Arrow IPC and Feather."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather, ipc

from gpupipe.errors import DataError
from gpupipe.io.settings import Source
from gpupipe.io.source_reader import read_arrow

TABLE = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int16()),
        "s": pa.array(["x", None, "y"], pa.string_view()),
        "c": pa.array(["p", "q", "p"]).dictionary_encode(),
        "n": pa.array([10, 20, 10]).dictionary_encode(),
        "l": [[1], [], None],
    }
)


def write(path: Path, form: str) -> None:
    if form == "file":
        with ipc.new_file(path, TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=2)
    elif form == "stream":
        with ipc.new_stream(path, TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=2)
    else:
        feather.write_feather(TABLE, str(path), compression="zstd")


@pytest.mark.parametrize("form", ["file", "stream", "feather"])
def test_both_forms_of_ipc_and_feather_are_read(tmp_path: Path, form: str) -> None:
    write(tmp_path / "t.arrow", form)
    loaded = read_arrow(Source(path="t.arrow"))
    text = pa.dictionary(pa.int32(), pa.string())
    assert loaded.table.schema.types == [pa.int16(), text, text, pa.dictionary(pa.int32(), pa.int64())]
    assert loaded.table.to_pydict() == TABLE.drop(["l"]).to_pydict()
    (note,) = loaded.notes.lines()
    assert note.startswith("column 'l' is dropped: no op reads its lists")


@pytest.mark.parametrize("form", ["file", "stream", "feather"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.9])
def test_a_truncated_file_is_one_clear_error(tmp_path: Path, form: str, share: float) -> None:
    write(tmp_path / "t.arrow", form)
    content = (tmp_path / "t.arrow").read_bytes()
    (tmp_path / "t.arrow").write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError) as caught:
        read_arrow(Source(path="t.arrow"))
    assert "t.arrow" in caught.value.where


def test_codes_outside_their_dictionary_are_refused(tmp_path: Path) -> None:
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["x"]), safe=False)
    with ipc.new_file(tmp_path / "t.arrow", pa.schema({"c": bad.type})) as writer:
        writer.write_table(pa.table({"c": bad}))
    with pytest.raises(DataError):
        read_arrow(Source(path="t.arrow"))
