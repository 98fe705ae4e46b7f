"""Long event log for the comparison of keyed features: copies of online-retail with distinct customers.

Events are sorted by time; events of one minute stay in the order of the copies. A quarter of them have no customer.
Every copy has its own customers, so a customer has the same number of events as in the shop.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpupipe.errors import ConfigError
from gpupipe.units import DAY_US

if TYPE_CHECKING:
    from gpupipe.typing import Array

    Columns = dict[str, dict[str, Array]]  # group → name → one value per event or per customer

FILE = Path("online-retail") / "online_retail.csv.gz"

SPAN = 30 * DAY_US  # length of the window, and half-life
CUT_OFF = 1_315_612_800_000_000  # 2011-09-10


@dataclass(frozen=True)
class EventLog:
    """Columns of the log, one value per event.

    Attributes
    ----------
    key : ndarray of int32
        Code of the customer, from 0; -1 for none.
    time : ndarray of int64
        Microseconds, ascending.
    spend : ndarray of float64
    stock : ndarray of int32
        Code of the article, from 1.
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
    """Write the log into `folder`, one file per column.

    Parameters
    ----------
    data : Path
        Folder of the public tables.
    n_events : int
    folder : Path

    Raises
    ------
    ConfigError
        If online-retail is missing in `data`.
    """
    import numpy as np
    import pandas as pd

    if not (data / FILE).is_file():
        raise ConfigError(f"{data / FILE} does not exist", where="GPUPIPE_DATA", fix="see configs/README.md")
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
