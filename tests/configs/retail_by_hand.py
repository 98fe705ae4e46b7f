"""Online Retail in pandas: purchases, orders, customers and labels, as the data set's README defines the task."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

CUT_OFF, END = pd.Timestamp("2011-09-10"), pd.Timestamp("2011-12-10")


def read_lines(data_dir: Path) -> pd.DataFrame:
    path = data_dir / "online-retail" / "online_retail.csv.gz"
    return pd.read_csv(path, dtype={"StockCode": str, "InvoiceNo": str}, parse_dates=["InvoiceDate"])


def purchases(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of known customers that are not returns, with the money spent."""
    is_cancelled = lines["InvoiceNo"].str.startswith("C")
    bought = lines[lines["CustomerID"].notna() & (lines["Quantity"] > 0) & ~is_cancelled]
    return bought.assign(spend=bought["Quantity"] * bought["UnitPrice"])


def orders(bought: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each invoice, at its earliest time."""
    by_invoice = bought.groupby(["CustomerID", "InvoiceNo"], as_index=False)
    return by_invoice.agg(InvoiceDate=("InvoiceDate", "min"), spend=("spend", "sum"))


def customers(bought: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each customer with a purchase before the cut-off, ordered by customer, with the label."""
    known = sorted(bought.loc[bought["InvoiceDate"] < CUT_OFF, "CustomerID"].unique())
    later = bought.loc[bought["InvoiceDate"].between(CUT_OFF, END, inclusive="left"), "CustomerID"]
    return pd.DataFrame({"CustomerID": known, "churned": ~pd.Series(known).isin(later)})
