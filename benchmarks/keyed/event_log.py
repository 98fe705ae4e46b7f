"""A long log to compare keyed features on: the lines of online-retail, once for each copy of its customers.

Lines stand in the order of their time, as in a log, those of one minute as in the copies; a quarter of them have no
customer. Every copy has customers of its own, so that a customer has as many lines as in the shop.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError
from gpupipe.units import DAY_US

if TYPE_CHECKING:
    from gpupipe.typing import Array

    Columns = dict[str, dict[str, Array]]  # group -> name -> one value for each line, or each customer

FILE = Path("online-retail") / "online_retail.csv.gz"

SPAN = 30 * DAY_US  # the window, and the half-life
CUT_OFF = 1_315_612_800_000_000  # 2011-09-10


@dataclass(frozen=True)
class EventLog:
    """The columns of the log, one value for each line.

    Attributes
    ----------
    key : ndarray of int32
        The customer, from 0; -1 for none.
    time : ndarray of int64
        Microseconds, ascending.
    spend : ndarray of float64
    stock : ndarray of int32
        The code of the article, from 1.
    """

    key: Array
    time: Array
    spend: Array
    stock: Array

    @property
    def n_keys(self) -> int:
        """Number of customers."""
        return int(self.key.max(initial=-1)) + 1


def write(data: Path, n_events: int, folder: Path) -> None:
    """Write the log into `folder`, one file a column.

    Parameters
    ----------
    data : Path
        The folder of the public tables.
    n_events : int
    folder : Path

    Raises
    ------
    ConfigError
        If there is no online-retail in `data`.
    """
    import numpy as np
    import pandas as pd

    if not (data / FILE).is_file():
        raise ConfigError(f"there is no file {data / FILE}", where="GPUPIPE_DATA", fix="see configs/README.md")
    shop = pd.read_csv(data / FILE, dtype={"InvoiceNo": str, "StockCode": str})
    key, customers = pd.factorize(shop["CustomerID"], sort=True)
    columns = {
        "time": pd.to_datetime(shop["InvoiceDate"]).astype("datetime64[us]").astype("int64").to_numpy(),
        "spend": (shop["Quantity"] * shop["UnitPrice"]).to_numpy("float64"),
        "stock": (pd.factorize(shop["StockCode"])[0] + 1).astype("int32"),
    }
    n_copies = -(-n_events // len(shop))
    copies = {name: np.tile(values, n_copies)[:n_events] for name, values in columns.items()}
    keys = [np.where(key < 0, -1, key + copy * len(customers)) for copy in range(n_copies)]
    copies["key"] = np.concatenate(keys)[:n_events].astype("int32")
    by_time = np.argsort(copies["time"], kind="stable")
    for name, values in copies.items():
        np.save(folder / f"{name}.npy", values[by_time])


def read(folder: Path) -> EventLog:
    """Read the log that `write` wrote."""
    import numpy as np

    return EventLog(*(np.load(folder / f"{name}.npy") for name in ("key", "time", "spend", "stock")))
