"""configs/online_retail.yaml: features of customers' histories, compared with pandas on the same lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.backends import choose
from gpupipe.config import load_config
from gpupipe.timeline.timeline import Timeline
from gpupipe.training.preparation.preparation import open_job
from tests.configs.retail_by_hand import CUT_OFF, customers, purchases, read_lines

CONFIGS = Path(__file__).parents[2] / "configs"
DAY = pd.Timedelta(days=1)


def expected(lines: pd.DataFrame, cut_off: pd.Timestamp) -> pd.DataFrame:
    """Return the features of the second reference set by pandas, one row a customer."""
    past = lines[lines["InvoiceDate"] < cut_off]
    by_invoice = past.groupby(["CustomerID", "InvoiceNo"])
    orders = by_invoice.agg(time=("InvoiceDate", "min"), spend=("spend", "sum")).reset_index()
    orders = orders.sort_values(["CustomerID", "time", "InvoiceNo"])
    waited: Any = cut_off - orders["time"]
    age = orders["age"] = waited / DAY
    customer = orders["CustomerID"]
    table = orders.groupby("CustomerID").agg(
        orders_recency=("age", "min"),
        orders_tenure=("age", "max"),
        orders_frequency=("age", "size"),
        orders_monetary=("spend", "sum"),
        orders_monetary_mean=("spend", "mean"),
    )
    gaps = (-age.groupby(customer).diff()).groupby(customer)
    for function in ("mean", "std", "max"):
        table[f"orders_gap_{function}"] = gaps.agg(function)
    for days in (7, 30, 90):
        table[f"orders_spend_decay_{days}d"] = (orders["spend"] * 0.5 ** (age / days)).groupby(customer).sum()
    for days in (30, 90):
        table[f"orders_count_{days}d"] = (age <= days).groupby(customer).sum()
    by_customer = past.sort_values("InvoiceDate", kind="stable").groupby("CustomerID")
    table["lines_count"] = by_customer.size()
    table["lines_Quantity_sum"] = by_customer["Quantity"].sum()
    table["lines_StockCode_nunique"] = by_customer["StockCode"].nunique()
    table["lines_Country_last"] = by_customer["Country"].last()
    return table


@pytest.mark.data
def test_the_labels_and_histories_of_3370_customers_match_pandas(data_dir: Path) -> None:
    bought = purchases(read_lines(data_dir))
    reference, labels = expected(bought, CUT_OFF), customers(bought)

    job = open_job(load_config(CONFIGS / "online_retail.yaml"), choose("cpu"), Timeline())

    assert job.table.n_rows == 3_370
    assert job.y is not None
    assert job.y.mean() == pytest.approx(0.4300, abs=5e-5)
    np.testing.assert_array_equal(job.table.column("CustomerID"), labels["CustomerID"])
    np.testing.assert_array_equal(job.y, labels["churned"])
    for name in reference.columns.drop("lines_Country_last"):
        np.testing.assert_allclose(job.table.column(name), reference[name], rtol=1e-5, atol=1e-3, err_msg=name)
    countries = job.table.schema["lines_Country_last"].levels
    assert countries is not None
    last = [countries[code - 3] for code in job.table.column("lines_Country_last")]
    assert last == reference["lines_Country_last"].tolist()
