"""Tables read by cuDF, or moved to it: bit-identical to the host's in schema, levels, codes, nulls and row order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from benchmarks.device.parity import config_for, job_of
from gpupipe.backends import DeviceOptions, choose
from gpupipe.config import Config, parse_config
from gpupipe.datasets.churn import customers, write
from gpupipe.errors import DeviceError
from gpupipe.io.device.obstacles import UnsupportedOnDevice, is_read_on_host, require_plain
from gpupipe.io.input_files import InputFiles
from gpupipe.io.settings import TableSource
from gpupipe.io.source_reader import read_arrow
from gpupipe.table.blocks import Table
from gpupipe.training.preparation.read_stage import read_table
from tests.gpu.tables import assert_same_table
from tests.table.differences import table_difference

pytestmark = pytest.mark.rapids("cudf", "rmm")
PLAIN = ("adult", "telco", "diamonds", "bike_sharing", "chicago_taxi", "nyc_taxi")


def of_file(path: Path, target: str) -> Config:
    return parse_config({"source": {"path": str(path), "target": target, "cache": False}})


def readable(config: Any, name: str) -> Config:
    """Return a configuration of configs/ if its table is available and no setting sends it to the host."""
    found: Config = config(name, "source.cache=false")
    try:
        if not is_read_on_host(InputFiles.find(found.source, found.tables), found.tables):
            require_plain(found.source, found.tables)
    except UnsupportedOnDevice as obstacle:
        pytest.skip(f"a table that the host reads by design: {obstacle}")
    return found


@pytest.mark.data
@pytest.mark.parametrize("name", PLAIN)
def test_a_public_csv(config: Any, name: str) -> None:
    assert_same_table(readable(config, name))


@pytest.mark.data
@pytest.mark.parametrize("ending", ["parquet", "orc", "csv"])
@pytest.mark.parametrize("name", ["telco-churn/Telco-Customer-Churn.csv", "bike-sharing/bike.csv"])
def test_a_public_table_in_another_format(data_dir: Path, tmp_path: Path, name: str, ending: str) -> None:
    table = read_arrow(TableSource(path=str(data_dir / name))).table
    plain = pa.table(
        {
            column: values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values
            for column, values in zip(table.column_names, table.columns, strict=True)
        }
    )
    path = tmp_path / f"table.{ending}"
    writers = {"parquet": pq.write_table, "orc": orc.write_table, "csv": pa.csv.write_csv}
    writers[ending](plain, path)
    assert_same_table(of_file(path, plain.column_names[-1]))


def test_several_files_keep_their_order(tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(customers(5_000, start=i * 5_000), tmp_path / f"{i}.parquet")
    assert_same_table(parse_config({"source": {"path": str(tmp_path / "*.parquet"), "target": "Churn"}}))


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_generated_customers(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"churn.{ending}"
    write(path, rows=20_000)
    assert_same_table(of_file(path, "Churn"))


def arrow_file(folder: Path) -> Config:
    path = folder / "churn.feather"
    feather.write_feather(customers(100), path)
    return of_file(path, "Churn")


def test_arrow_files_fall_back_and_are_refused_if_fallback_is_forbidden(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="arrow files are not supported"):
        job_of(arrow_file(tmp_path), "gpu")


def test_arrow_files_give_the_same_table_and_the_fallback_is_reported(tmp_path: Path) -> None:
    config = arrow_file(tmp_path)
    host, backend = job_of(config, "cpu"), choose("gpu", DeviceOptions(fallback="allow"))
    backend.open_stage()
    device = read_table(config_for(config, "gpu"), backend).table
    assert any("arrow files are not supported" in text for text in backend.close_stage().fallbacks)
    assert isinstance(host.table, Table) and isinstance(device, Table)
    assert table_difference(host.table, device, backend) == ""
