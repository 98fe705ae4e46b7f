"""What online_retail.yaml cannot say: the ``prepare:`` hooks that make purchases, orders and customers of lines.

A customer who bought before the cut-off has churned if the 91 days from it see no purchase.
"""

from __future__ import annotations

import pandas as pd

CUT_OFF = pd.Timestamp("2011-09-10")
END = pd.Timestamp("2011-12-10")


def purchases(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of known customers that are no returns, with the money spent."""
    is_cancelled = lines["InvoiceNo"].astype(str).str.startswith("C")
    kept = lines[lines["CustomerID"].notna() & (lines["Quantity"] > 0) & ~is_cancelled].copy()
    kept["InvoiceDate"] = pd.to_datetime(kept["InvoiceDate"])
    kept["spend"] = kept["Quantity"] * kept["UnitPrice"]
    return kept


def orders(lines: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each invoice, at its earliest time."""
    by_invoice = purchases(lines).groupby(["CustomerID", "InvoiceNo"], as_index=False)
    return by_invoice.agg(time=("InvoiceDate", "min"), spend=("spend", "sum"))


def customers(lines: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each customer with a purchase before the cut-off, ordered by customer."""
    bought = purchases(lines)
    known = sorted(bought.loc[bought["InvoiceDate"] < CUT_OFF, "CustomerID"].unique())
    later = bought.loc[bought["InvoiceDate"].between(CUT_OFF, END, inclusive="left"), "CustomerID"]
    return pd.DataFrame({"CustomerID": known, "churned": ~pd.Series(known).isin(later)})
