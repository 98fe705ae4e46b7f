"""Histories of tables read on a device, compared with the host: keys, order, features, and fallbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

from gpupipe.backends import Backend, choose
from gpupipe.config import Config, parse_config
from gpupipe.errors import ConfigError, DeviceError, GpupipeError
from gpupipe.features.history.derivation import derive, derived_ops
from gpupipe.io.device.obstacles import READ_ON_HOST
from gpupipe.table.blocks import Table
from gpupipe.training.preparation.read_stage import read_table
from tests.io.device import test_source_reader as test_device
from tests.io.device.test_source_reader import assert_same_table

N_CUSTOMERS, N_ORDERS = 40, 300
ORDERS = {"table": "orders", "time": "at", "as_of": "2024-02-01"}
VISITS = {"key": ["id", "shop"], "time": "since", "prefix": "own_"}
OPS: list[dict[str, Any]] = [
    {"rfm": ORDERS | {"amount": "spend"}},
    {"aggregate": ORDERS | {"columns": {"spend": ["mean", "max", "nunique"], "shop": ["last", "nunique"]}}},
    {"decay": ORDERS | {"as_of": "since", "columns": "spend", "half_life": "7d", "prefix": "until_then_"}},
    {"lag": VISITS | {"columns": "age", "periods": [1, 2]}},
    {"aggregate": VISITS | {"columns": {"own_age_lag_1": "sum"}, "prefix": "of_a_lag_"}},
]


class PandasDevice(test_device.PandasDevice):
    """Device backend with a host backend for comparison."""

    @property
    def host(self) -> Backend:
        return choose("cpu")


def random_tables(ids: Any) -> dict[str, pd.DataFrame]:
    """Return customers and orders; `ids` makes keys of numbers, some of which are null on either side."""
    rng = np.random.default_rng(0)
    customers = pd.DataFrame(
        {
            "id": ids(rng.integers(0, 30, N_CUSTOMERS)),
            "shop": rng.choice(np.array(["north", "south ", " south", "NA", None]), N_CUSTOMERS),
            "since": pd.Timestamp("2024-01-10") + pd.to_timedelta(rng.integers(0, 20, N_CUSTOMERS), unit="D"),
            "age": rng.choice([20.0, 30.5, np.nan], N_CUSTOMERS),
            "left": rng.choice(["no", "yes"], N_CUSTOMERS),
        }
    )
    orders = pd.DataFrame(
        {
            "customer": ids(rng.integers(5, 40, N_ORDERS)),
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 60 * 24, N_ORDERS), unit="h"),
            "spend": np.where(rng.random(N_ORDERS) < 0.2, np.nan, rng.normal(20, 10, N_ORDERS).round(2)),
            "shop": rng.choice(np.array(["north", "south", None]), N_ORDERS),
        }
    )
    orders.loc[:3, "at"] = pd.NaT
    return {"customers": customers, "orders": orders}


def written(folder: Path, tables: dict[str, pd.DataFrame], kind: str) -> None:
    for name, frame in tables.items():
        if kind == "csv":
            frame.to_csv(folder / f"{name}.csv", index=False)
        else:
            frame.to_parquet(folder / f"{name}.parquet", index=False, row_group_size=100)


def configured(folder: Path, kind: str = "parquet", ops: Any = OPS, **more: Any) -> Config:
    orders = {"path": str(folder / f"orders.{kind}"), "on": {"left": "id", "right": "customer"}}
    source = {"path": str(folder / f"customers.{kind}"), "target": "left", "cache": False}
    return parse_config(
        {"source": source, "tables": {"orders": orders | {"cardinality": "one_to_many"}}, "features": ops, **more}
    )


def derived(config: Config, backend: Backend) -> tuple[Table, Any]:
    found = read_table(config, backend)
    assert found.sources is not None
    return derive(derived_ops(config.features), found.sources)


def compare(config: Config) -> PandasDevice:
    """Compare the tables with their derived columns, or the refusals; return the device."""
    device = PandasDevice()
    try:
        expected, how = derived(config, choose("cpu"))
    except GpupipeError as error:
        with pytest.raises(type(error)) as refused:
            derived(config, device)
        assert str(refused.value) == str(error)
    else:
        found, again = derived(config, device)
        assert_same_table(found, expected)
        assert (again.made, again.inputs, again.schema, again.tables) == (how.made, how.inputs, how.schema, how.tables)
    assert device.fallbacks() == []
    return device


KEYS: dict[str, Any] = {
    "numbers": lambda ids: pd.array([None if n % 7 == 0 else n for n in ids.tolist()], "Int64"),
    "floats": lambda ids: np.where(ids % 7 == 0, np.nan, ids / 2),
    "texts": lambda ids: pd.array([None if n % 7 == 0 else f" customer {n}" for n in ids.tolist()], "str"),
}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("keys", KEYS)
def test_histories_match_the_host(tmp_path: Path, keys: str, kind: str) -> None:
    written(tmp_path, random_tables(KEYS[keys]), kind)
    compare(configured(tmp_path, kind))


@pytest.mark.parametrize("more", [{"as_of": "age"}, {"as_of": "sinse"}, {"time": "spend"}, {"time": "left"}])
def test_invalid_histories_raise_the_same_errors(tmp_path: Path, more: dict[str, Any]) -> None:
    written(tmp_path, random_tables(KEYS["numbers"]), "parquet")
    compare(configured(tmp_path, ops=[{"aggregate": ORDERS | more}]))


@pytest.mark.parametrize("key", ["ide", "left", "quite another name"])
def test_a_key_that_is_not_there_or_not_known_is_refused_in_the_same_words(tmp_path: Path, key: str) -> None:
    written(tmp_path, random_tables(KEYS["numbers"]), "parquet")
    compare(configured(tmp_path, ops=[{"aggregate": {"key": ["id", key], "time": "since"}}]))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_numbers_meet_texts_that_mean_them_and_times_do_not(tmp_path: Path, kind: str) -> None:
    tables = random_tables(KEYS["numbers"])
    tables["customers"]["id"] = tables["customers"]["id"].astype("str").str.zfill(3)
    written(tmp_path, tables, kind)
    compare(configured(tmp_path, kind))
    tables["orders"]["customer"] = tables["orders"]["at"]
    written(tmp_path, tables, kind)
    compare(configured(tmp_path, kind))


def test_a_column_read_only_for_its_rules_is_not_a_key(tmp_path: Path) -> None:
    written(tmp_path, random_tables(KEYS["numbers"]), "parquet")
    source = {"path": str(tmp_path / "customers.parquet"), "target": "left", "cache": False, "drop": ["id"]}
    own = [{"lag": VISITS | {"columns": "age"}}]
    config = configured(tmp_path, ops=own, source=source, data={"id": {"range": [0, 100]}})
    compare(config)
    with pytest.raises(ConfigError, match="the table has no column 'id'"):
        derived(config, PandasDevice())


def test_filtered_rows_are_not_part_of_the_history(tmp_path: Path) -> None:
    written(tmp_path, random_tables(KEYS["texts"]), "parquet")
    config = configured(tmp_path)
    kept = config.tables["orders"].model_copy(update={"where": "spend > 15 and shop == 'north'"})
    compare(config.model_copy(update={"tables": {"orders": kept}}))


def on_a_device_that_may_fall_back(config: Config) -> tuple[Table, list[str]]:
    device = PandasDevice("allow")
    found = read_table(config, device)
    assert found.sources is not None
    return derive(derived_ops(config.features), found.sources)[0], device.fallbacks()


def test_events_that_the_host_must_read_are_history_on_the_device_all_the_same(tmp_path: Path) -> None:
    tables = random_tables(KEYS["texts"])
    written(tmp_path, tables, "parquet")
    feather.write_feather(pa.Table.from_pandas(tables["orders"], preserve_index=False), tmp_path / "orders.feather")
    config = configured(tmp_path)
    packed = config.tables["orders"].model_copy(update={"path": str(tmp_path / "orders.feather")})
    config = config.model_copy(update={"tables": {"orders": packed}})
    found, said = on_a_device_that_may_fall_back(config)
    assert_same_table(found, derived(config, choose("cpu"))[0])
    assert said == ["arrow files are not supported on the GPU (read: tables.orders.format)"]
    with pytest.raises(DeviceError, match="arrow files are not supported on the GPU") as error:
        read_table(config, PandasDevice())
    assert error.value.where == "read: tables.orders.format"


def test_events_in_csv_are_read_on_the_host_with_a_note_even_if_fallback_is_forbidden(tmp_path: Path) -> None:
    tables = random_tables(KEYS["texts"])
    written(tmp_path, tables, "parquet")
    tables["orders"].to_csv(tmp_path / "orders.csv", index=False)
    config = configured(tmp_path)
    events = config.tables["orders"].model_copy(update={"path": str(tmp_path / "orders.csv")})
    device = compare(config.model_copy(update={"tables": {"orders": events}}))
    assert device.take_notes() == [f"tables.orders: {READ_ON_HOST}"]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("where", [None, "shop != 'north'"])
def test_texts_are_those_that_the_host_reads(tmp_path: Path, kind: str, where: str | None) -> None:
    """Features of categories, free text, numeric categories and a dropped column, in addition to history features."""
    tables = random_tables(KEYS["numbers"])
    notes = np.array(["Été à la plage 😀", "NA", "", None, " red  bag", "Red BAG"], object)
    tables["customers"]["note"] = [f"{notes[i % 6]} {i}" if i % 4 else notes[i % 6] for i in range(N_CUSTOMERS)]
    tables["customers"]["bag"] = np.arange(N_CUSTOMERS) % 7
    written(tmp_path, tables, kind)
    counts = {"columns": ["shop", "bag"], "counts": ["words", "bytes"], "patterns": {"has_o": "o"}}
    hashes = [{"columns": "@text", "buckets": 4, "value": "log"}, {"columns": ["note", "bag"], "prefix": "own_"}]
    ops = [OPS[3], {"text_counts": counts}, *({"text_hash": each} for each in hashes)]
    source = {"path": str(tmp_path / f"customers.{kind}"), "target": "left", "cache": False, "where": where}
    compare(configured(tmp_path, kind, ops, source=source | {"schema": {"bag": "categorical", "note": "text"}}))
