"""From invoice lines to customers: the ``prepare:`` hook of online_retail.yaml.

A customer who bought before the cut-off has churned if the 91 days from it see no purchase. Features see only what was
before the cut-off.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

CUT_OFF = pd.Timestamp("2011-09-10")
END = pd.Timestamp("2011-12-10")
DAY = pd.Timedelta(days=1)


def customers(lines: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each customer with a purchase before the cut-off, ordered by customer."""
    lines = purchases(lines)
    past = lines[lines["InvoiceDate"] < CUT_OFF]
    future = lines[lines["InvoiceDate"].between(CUT_OFF, END, inclusive="left")]
    orders = (
        past.groupby(["CustomerID", "InvoiceNo"])
        .agg(time=("InvoiceDate", "min"), spend=("spend", "sum"))
        .reset_index()
        .sort_values(["CustomerID", "time", "InvoiceNo"])
    )
    orders["age"] = (CUT_OFF - orders["time"]) / DAY
    table = pd.concat([recency_frequency_monetary(orders), gaps(orders), decay(orders), basket(past)], axis=1)
    table["recency_per_gap"] = table["recency"] / table["gap_mean"].where(table["gap_mean"] > 0)
    table["churned"] = ~table.index.isin(future["CustomerID"])
    return table.reset_index(drop=True)


def purchases(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of known customers that are no returns, with the money spent."""
    is_cancelled = lines["InvoiceNo"].astype(str).str.startswith("C")
    kept = lines[lines["CustomerID"].notna() & (lines["Quantity"] > 0) & ~is_cancelled].copy()
    kept["InvoiceDate"] = pd.to_datetime(kept["InvoiceDate"])
    kept["spend"] = kept["Quantity"] * kept["UnitPrice"]
    return kept


def recency_frequency_monetary(orders: pd.DataFrame) -> pd.DataFrame:
    """Return days since the last and the first order, the number of orders, and the money spent."""
    by_customer = orders.groupby("CustomerID")
    return by_customer.agg(
        recency=("age", "min"),
        tenure=("age", "max"),
        orders=("age", "size"),
        spend=("spend", "sum"),
        order_value=("spend", "mean"),
    )


def gaps(orders: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard deviation and maximum of the days between orders; missing after one order only."""
    between = -orders.groupby("CustomerID")["age"].diff()
    by_customer = between.groupby(orders["CustomerID"])
    return by_customer.agg(["mean", "std", "max"]).add_prefix("gap_")


def decay(orders: pd.DataFrame) -> pd.DataFrame:
    """Return the money spent, halved every 7, 30 and 90 days, and the orders of the last 30 and 90 days."""
    columns = {f"spend_half_life_{h}": orders["spend"] * 0.5 ** (orders["age"] / h) for h in (7, 30, 90)}
    columns |= {f"orders_last_{days}": (orders["age"] <= days).astype(np.int64) for days in (30, 90)}
    return pd.DataFrame(columns).groupby(orders["CustomerID"]).sum()


def basket(past: pd.DataFrame) -> pd.DataFrame:
    """Return the number of lines, items and distinct products, and the country of the last line."""
    return (
        past.sort_values("InvoiceDate", kind="stable")
        .groupby("CustomerID")
        .agg(
            lines=("Quantity", "size"),
            items=("Quantity", "sum"),
            products=("StockCode", "nunique"),
            country=("Country", "last"),
        )
    )
