"""Customer histories before a cut-off, with the label and the features that the shared data's READMEs define."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

DAY = pd.Timedelta(days=1)
DAY_S = 86_400


def online_retail(folder: Path) -> pd.DataFrame:
    """Return the customers of the gift shop who had bought something by 10 September 2011."""
    lines = pd.read_csv(folder / "online-retail/online_retail.csv.gz", dtype={"InvoiceNo": str, "StockCode": str})
    bought = lines["CustomerID"].notna() & (lines["Quantity"] > 0) & ~lines["InvoiceNo"].str.startswith("C")
    lines = lines[bought].assign(time=pd.to_datetime(lines["InvoiceDate"]))
    lines["spend"] = lines["Quantity"] * lines["UnitPrice"]
    orders = lines.groupby(["CustomerID", "InvoiceNo"], as_index=False).agg(
        time=("time", "min"), spend=("spend", "sum")
    )
    cut = pd.Timestamp("2011-09-10")
    customers = _order_history(orders.rename(columns={"CustomerID": "customer"}), cut, cut + 91 * DAY)
    past = lines[lines["time"] < cut].sort_values("time", kind="stable").groupby("CustomerID")
    customers["lines"] = past.size()
    customers["items"] = past["Quantity"].sum()
    customers["products"] = past["StockCode"].nunique()
    customers["country"] = past["Country"].last()
    return customers.reset_index(drop=True)


def cdnow(folder: Path) -> pd.DataFrame:
    """Return the customers of the music shop who had bought something by 1 October 1997."""
    return cdnow_at(folder, pd.Timestamp("1997-10-01"), pd.Timestamp("1998-07-01"))


def cdnow_at(folder: Path, cut: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
    """Return the customers of the music shop who had bought something before `cut`; churned: nothing until `end`."""
    names = ["customer", "time", "n_cds", "spend"]
    options: dict[str, Any] = {"sep": r"\s+", "skiprows": 1, "names": names, "dtype": {"customer": str, "time": str}}
    purchases = pd.read_csv(folder / "cdnow-transactions/CDNOW_master.txt", **options)
    purchases["time"] = pd.to_datetime(purchases["time"], format="%Y%m%d")
    orders = purchases.groupby(["customer", "time"], as_index=False)["spend"].sum()
    return _order_history(orders, cut, end).reset_index(drop=True)


def _order_history(orders: pd.DataFrame, cut: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
    """Return a row per customer with an order before `cut`, by customer; churned: no order from `cut` to `end`."""
    orders = orders.sort_values(["customer", "time"], kind="stable")
    past = orders[orders["time"] < cut].copy()
    past["age"] = (cut - past["time"]).dt.total_seconds() / DAY_S
    past["gap"] = past.groupby("customer")["time"].diff().dt.total_seconds() / DAY_S
    groups = past.groupby("customer")
    made = pd.DataFrame(
        {
            "recency": groups["age"].min(),
            "tenure": groups["age"].max(),
            "orders": groups.size(),
            "spend": groups["spend"].sum(),
            "mean_spend": groups["spend"].mean(),
            "gap_mean": groups["gap"].mean(),
            "gap_std": groups["gap"].std(ddof=0),
            "gap_max": groups["gap"].max(),
        }
    )
    made["recency_per_gap"] = (made["recency"] / made["gap_mean"]).replace([np.inf, -np.inf], np.nan)
    for half_life in (7, 30, 90):
        decayed = past["spend"] * 0.5 ** (past["age"] / half_life)
        made[f"decay_{half_life}"] = decayed.groupby(past["customer"]).sum()
    for days in (30, 90):
        made[f"orders_{days}"] = (past["age"] <= days).groupby(past["customer"]).sum()
    later = orders.loc[(orders["time"] >= cut) & (orders["time"] < end), "customer"]
    made["churned"] = np.where(made.index.isin(later), 0, 1)
    return made
