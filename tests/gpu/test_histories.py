"""Key histories on the device, compared with the host: equal codes and counts, numbers close to float32 precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.device.parity import config_for, metrics_of, stages_elsewhere
from gpupipe.backends import choose
from gpupipe.config import Config, parse_config
from gpupipe.features.history.derivation import derive, derived_ops
from gpupipe.features.history.key_partitions import derive_partition, merge_partitions
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.inference.model import load_model
from gpupipe.pipeline.run import run_pipeline
from gpupipe.training.preparation.read_stage import read_table
from tests.configs.retail_by_hand import customers, orders, purchases, read_lines
from tests.features.histories import OPS_BY_NAME, ops_of, rows, sources

ROWS = 20_000
TOLERANCE = 2e-6  # of float32
METRIC_GAP = 0.003


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables of events, in two formats."""
    path = tmp_path_factory.mktemp("histories")
    for seed, name in enumerate(("visits", "orders")):
        frame = rows(ROWS, seed).to_pandas()
        frame["left"] = np.where(frame["spend"] > 20, "yes", "no")
        frame.to_parquet(path / f"{name}.parquet", index=False)
        frame.to_csv(path / f"{name}.csv", index=False)
    return path


def configured(folder: Path, kind: str, ops: list[dict[str, Any]], **more: Any) -> Config:
    source = {"path": str(folder / f"visits.{kind}"), "target": "left", "positive": "yes", "cache": False}
    orders = {"path": str(folder / f"orders.{kind}"), "on": "customer", "cardinality": "one_to_many"}
    return parse_config({"source": source, "tables": {"orders": orders}, "features": ops, **more})


def derived_columns(config: Config, device: str) -> tuple[dict[str, Any], Any]:
    """Return the derived columns on the host, and what the device did while it made them."""
    there = config_for(config, device)
    backend = choose(device, there.device_options)
    found = read_table(there, backend)
    assert found.sources is not None and found.sources.backend is backend
    backend.open_stage()
    table, _ = derive(derived_ops(there.features), found.sources)
    use = backend.close_stage()
    columns = [column.name for column in table.schema if column.derived]
    return {name: backend.to_host(table.column(name)) for name in columns}, use


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("op", OPS_BY_NAME)
def test_an_op_matches_the_host_and_no_row_leaves_the_device(folder: Path, op: str, kind: str) -> None:
    config = configured(folder, kind, [{op: settings} for settings in OPS_BY_NAME[op]])
    (expected, _), (found, use) = (derived_columns(config, device) for device in ("cpu", "gpu"))
    assert use.bytes_to_host == 0 and use.fallbacks == ()
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        exact = values.dtype.kind == "i" or any(word in name for word in ("count", "nunique", "lag", "first", "last"))
        tolerance = 0.0 if exact else TOLERANCE
        np.testing.assert_allclose(found[name], values, rtol=tolerance, atol=10 * tolerance, err_msg=name)


def test_texts_and_several_columns_are_keys(folder: Path) -> None:
    own = {"key": ["kind", "customer", "shop"], "time": "at", "columns": {"*": "count", "spend": "last"}}
    config = configured(folder, "parquet", [{"aggregate": own}])
    (expected, _), (found, _) = (derived_columns(config, device) for device in ("cpu", "gpu"))
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_texts_are_hashed_and_counted_as_on_the_host(folder: Path, kind: str) -> None:
    grams: dict[str, Any] = {"columns": ["shop", "kind"], "buckets": 16, "analyzer": "char_wb", "ngrams": [2, 3]}
    hashes = [grams | {"value": value, "prefix": value} for value in ("count", "binary", "log")]
    counts = {"columns": ["shop"], "patterns": {"has_o": "o"}}
    config = configured(folder, kind, [*({"text_hash": each} for each in hashes), {"text_counts": counts}])
    (expected, _), (found, use) = (derived_columns(config, device) for device in ("cpu", "gpu"))
    assert use.fallbacks == ()
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=2e-7, err_msg=name)


@pytest.mark.parametrize("op", OPS_BY_NAME)
def test_key_partitions_give_the_same_as_all_keys(op: str) -> None:
    backend = choose("gpu")
    for each in ops_of(op):
        assert isinstance(each, KeyedOp)
        there = sources(backend, ROWS)
        keys = each.keys(there)
        parts = [derive_partition(each, there, keys, a, b) for a, b in ((0, 1), (1, keys.size))]
        for made, whole in zip(merge_partitions(parts, there), each.derive(there), strict=True):
            found, expected = (backend.to_host(one.values) for one in (made, whole))
            np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=10 * TOLERANCE, err_msg=made.name)


def test_reads_of_a_cupy_array_wait_for_its_stream() -> None:
    (op,) = ops_of("lag")[:1]
    assert isinstance(op, KeyedOp)
    history = op.view(sources(choose("gpu"), 100)).history
    assert history.start.stream == 0  # of an array that names a stream Numba copies an element without waiting


@pytest.fixture(scope="module")
def online_retail(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write the tables that online_retail.yaml makes of the lines, which a device does not."""
    folder, bought = tmp_path_factory.mktemp("retail"), purchases(read_lines(data_dir))
    for name, frame in (("customers", customers(bought)), ("orders", orders(bought)), ("lines", bought)):
        frame.to_parquet(folder / f"{name}.parquet", index=False)
    said = ["source.cache=false", "models=[logistic_regression, xgboost]"]
    said += ["source.entities=null", f"source.path={folder / 'customers.parquet'}"]
    for name in ("orders", "lines"):
        said += [f"tables.{name}.path={folder / f'{name}.parquet'}", f"tables.{name}.where=null"]
    said += ["tables.orders.compute={}", "tables.orders.group_by=null"]
    keyed = enumerate(("rfm", "aggregate", "decay", "rolling", "aggregate"))
    return said + [f"features.{i}.{op}.as_of=2011-09-10" for i, op in keyed]


@pytest.mark.data
@pytest.mark.rapids
def test_online_retail_runs_entirely_on_the_device_with_the_metrics_of_the_host(
    config: Any, online_retail: list[str]
) -> None:
    found = metrics_of(config("online_retail", *online_retail))
    for name, value in found["cpu"].items():
        assert found["gpu"][name] == pytest.approx(value, abs=METRIC_GAP), name


@pytest.mark.data
@pytest.mark.rapids
def test_online_retail_records_its_device_and_predicts_on_both(
    config: Any, online_retail: list[str], tmp_path: Path
) -> None:
    there = config_for(config("online_retail", *online_retail), "gpu")
    run = run_pipeline(there, tmp_path / "run")
    assert stages_elsewhere(run.plan(), "gpu") == []
    stage = next(stage for stage in run.timeline.to_json()["stages"] if stage["name"] == "derive")
    assert (stage["device"], stage["interpreter"], stage["bytes_to_host"]) == ("gpu", "cuda", 0)
    tables = {name: table.path for name, table in there.tables.items()}
    gpu, cpu = (
        load_model(run.path, device).predict_proba(there.source.path, tables)[:, 1] for device in ("gpu", "cpu")
    )
    np.testing.assert_allclose(gpu, cpu, atol=1e-4)
