"""File names that are not UTF-8, as on old disks and in archives: read, written, and shown escaped."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from gpupipe.cli import main
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow

TABLE = pa.table({"a": list(range(80)), "b": list("xyzw") * 20, "y": ["no"] * 40 + ["yes"] * 40})
FORMATS = {
    "csv": pa.csv.write_csv,
    "parquet": pq.write_table,
    "orc": pa.orc.write_table,
    "feather": pa.feather.write_feather,
    "jsonl": lambda table, path: Path(path).write_text("\n".join(map(json.dumps, table.to_pylist()))),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, whose own name is not UTF-8."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    try:
        path.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    monkeypatch.chdir(path)
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_read(folder: Path, name: str) -> None:
    FORMATS[name](TABLE, "plain")
    odd = os.fsdecode(f"d.{name}".encode().replace(b"d", b"d\xff"))
    os.rename("plain", odd)
    assert read_arrow(TableSource(path=odd)).table.to_pydict() == TABLE.to_pydict()
    assert read_arrow(TableSource(path=str(folder))).table.num_rows == TABLE.num_rows


def test_a_table_is_trained_on_scored_and_exported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, config, run, scores = (os.fsdecode(name) for name in (b"t\xff.csv", b"c\xff.yaml", b"r\xff", b"s\xff.csv"))
    pa.csv.write_csv(TABLE, "plain")
    os.rename("plain", table)
    assert main(["init", table, "--target", "y", "-o", config]) == 0
    fast = ["--set", "models=[gaussian_nb]", "--set", "evaluate.importance=false", "--set", "source.cache=cache"]
    fast += ["--set", "report.enabled=false"]
    assert main(["run", config, *fast, "--output", run]) == 0, capsys.readouterr().err
    assert main(["check", os.path.join(run, "config.yaml")]) == 0
    capsys.readouterr()
    assert main(["predict", run, table, "-o", scores, "--json"]) == 0
    summary, said = capsys.readouterr()
    assert json.loads(summary)["input"] == table and "written to s\\udcff.csv" in said
    assert Path(scores).read_text().count("\n") == TABLE.num_rows + 1
    assert main(["export", run, "-o", os.fsdecode(b"m\xff")]) == 0


def test_a_name_that_no_pattern_matches_exclusively_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = os.fsdecode(b"t\xff.csv")
    for name in ("t1.csv", "plain"):
        pa.csv.write_csv(TABLE, name)
    os.rename("plain", table)
    assert main(["init", table, "--target", "y", "-o", "c.yaml"]) == 2
    assert "rename the file" in capsys.readouterr().err and not Path("c.yaml").exists()
