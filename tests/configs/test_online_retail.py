"""The ``prepare:`` hook of configs/online_retail.yaml: invoice lines to customers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

HOOK = Path(__file__).parents[2] / "configs" / "online_retail.py"


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("online_retail_hook", HOOK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines(*rows: tuple[float | None, str, str, str, int, float]) -> pd.DataFrame:
    names = ["CustomerID", "InvoiceNo", "InvoiceDate", "StockCode", "Quantity", "UnitPrice"]
    return pd.DataFrame(list(rows), columns=names).assign(Country="Finland")


def test_a_customer_is_described_by_what_was_bought_before_the_cut_off(hook: ModuleType) -> None:
    table = hook.customers(
        lines(
            (1.0, "a", "2011-08-11 00:00:00", "cup", 2, 5.0),
            (1.0, "a", "2011-08-11 00:01:00", "pot", 1, 10.0),
            (1.0, "b", "2011-08-31 00:00:00", "cup", 4, 5.0),
            (1.0, "c", "2011-09-10 00:00:00", "cup", 1, 999.0),  # from the cut-off on: the label, not the features
        )
    )

    assert len(table) == 1
    customer = table.iloc[0]
    assert (customer["recency"], customer["tenure"], customer["orders"]) == (10.0, 30.0, 2)
    assert (customer["spend"], customer["order_value"]) == (40.0, 20.0)
    assert (customer["gap_mean"], customer["recency_per_gap"]) == (20.0, 0.5)
    assert pd.isna(customer["gap_std"])  # of one gap
    assert customer["spend_half_life_30"] == pytest.approx(20 * 0.5 + 20 * 0.5 ** (1 / 3))
    assert (customer["orders_last_30"], customer["orders_last_90"]) == (2, 2)
    assert (customer["lines"], customer["items"], customer["products"]) == (3, 7, 2)
    assert not customer["churned"]


def test_returns_strangers_and_newcomers_are_no_customers(hook: ModuleType) -> None:
    table = hook.customers(
        lines(
            (1.0, "a", "2011-08-11 00:00:00", "cup", 2, 5.0),
            (1.0, "Cb", "2011-09-20 00:00:00", "cup", 2, 5.0),  # cancelled: no purchase, so customer 1 has churned
            (2.0, "c", "2011-08-11 00:00:00", "cup", -2, 5.0),
            (None, "d", "2011-08-11 00:00:00", "cup", 2, 5.0),
            (3.0, "e", "2011-10-11 00:00:00", "cup", 2, 5.0),
        )
    )

    assert table["churned"].tolist() == [True]
    assert table["orders"].tolist() == [1]


def test_two_orders_in_one_minute_have_no_gap_to_compare_with(hook: ModuleType) -> None:
    table = hook.customers(
        lines((1.0, "a", "2011-08-11 00:00:00", "cup", 2, 5.0), (1.0, "b", "2011-08-11 00:00:00", "cup", 2, 5.0))
    )

    assert table["gap_mean"].tolist() == [0.0]
    assert table["recency_per_gap"].isna().all()


@pytest.mark.data
def test_the_public_table_has_3370_customers_of_whom_43_percent_churned(hook: ModuleType, data_dir: Path) -> None:
    table = hook.customers(pd.read_csv(data_dir / "online-retail" / "online_retail.csv.gz", dtype={"InvoiceNo": "str"}))

    assert table.shape == (3_370, 19)
    assert table["churned"].mean() == pytest.approx(0.4300, abs=5e-5)
    assert table.drop(columns="country").astype("float64").abs().max().max() < 1e6
