"""The benchmark of drift at a tiny size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import drift


def test_shifted_columns_are_found_and_the_file_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    json_file = tmp_path / "records.json"
    drift.main(
        ["--rows", "20000", "--columns", "11", "--repeats", "1", "--folder", str(tmp_path), "--json", str(json_file)]
    )
    assert "2 columns drifted, 0 of them wrong or missing" in capsys.readouterr().out
    (record,) = json.loads(json_file.read_text())
    assert all(part["peak_mib"] > 0 for part in record.values()) and list(tmp_path.iterdir()) == [json_file]
