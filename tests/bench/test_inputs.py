"""Tables to measure."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gpupipe.bench.measurement import inputs
from gpupipe.config import load_config
from gpupipe.datasets.churn import customers
from gpupipe.errors import ConfigError


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    path = tmp_path / "g.yaml"
    path.write_text("source: {generate: churn, rows: 50, seed: 3, target: Churn, positive: 'Yes'}\n")
    return path


def test_a_generated_table_is_written_once_for_all(generated: Path, tmp_path: Path) -> None:
    (found,) = inputs(load_config(generated), None, [], tmp_path)
    assert found.path is not None
    written = pq.read_table(found.path)
    assert written.column("tenure").to_pylist() == customers(50, 3).column("tenure").to_pylist()
    read = load_config(generated, found.overrides).source
    assert (read.paths, read.generate) == ((str(found.path),), None)


def test_sizes_make_one_table_each(generated: Path, tmp_path: Path) -> None:
    tables = list(inputs(load_config(generated), None, [10, 20], tmp_path))
    assert [pq.read_table(table.path).num_rows for table in tables] == [10, 20]


def test_data_replaces_the_source(generated: Path, tmp_path: Path) -> None:
    data = tmp_path / "odd ${name}: [x].csv"
    data.write_text("Churn\nYes\n")
    (found,) = inputs(load_config(generated), data, [], tmp_path)
    assert found.path == data
    assert load_config(generated, found.overrides).source.paths == (str(data),)


def test_missing_data_is_an_error(generated: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        list(inputs(load_config(generated), tmp_path / "no.csv", [], tmp_path))


def test_a_file_of_the_configuration_is_read_as_it_is(binary: Path, tmp_path: Path) -> None:
    (found,) = inputs(load_config(binary), None, [], tmp_path)
    assert (found.path, found.overrides) == (tmp_path / "table.parquet", ())


def test_files_have_the_size_that_they_have(binary: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a generated table"):
        list(inputs(load_config(binary), None, [10], tmp_path))
