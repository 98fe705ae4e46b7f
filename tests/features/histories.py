"""A table with a history, another table of events, and every op over them, for any backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from gpupipe.backends import Backend
from gpupipe.features import OPS
from gpupipe.features.history.derivation import DerivedOp, derived_ops
from gpupipe.features.history.tables import DerivationSources, EventTable, HistoryRows
from gpupipe.table.encode import encode

OWN = {"key": ["customer", "shop"], "time": "at"}
ORDERS = {"table": "orders", "time": "at", "as_of": "2024-01-20"}
NUMBERS = ["count", "sum", "mean", "min", "max", "std", "nunique", "first", "last"]

OPS_BY_NAME: dict[str, list[dict[str, Any]]] = {
    "aggregate": [
        OWN | {"columns": {"spend": NUMBERS, "kind": ["count", "nunique", "first", "last"], "*": "count"}},
        OWN | {"columns": {"sent_back": ["mean", "last"]}, "current": True, "gaps": ["mean", "std"], "prefix": "now_"},
        ORDERS | {"columns": {"spend": ["sum", "std"], "kind": "last"}},
        {"table": "orders", "columns": {"spend": "max"}, "prefix": "timeless_"},
    ],
    "lag": [
        OWN | {"columns": ["spend", "sent_back"], "periods": [1, 2]},
        OWN | {"columns": "spend", "periods": [1, "3d"], "gap": "1d", "prefix": "late_"},
    ],
    "difference": [OWN | {"columns": "spend"}, ORDERS | {"columns": "spend"}],
    "rolling": [
        OWN | {"columns": "spend", "functions": ["sum", "mean", "max"], "windows": [3, "4d"], "prefix": "rolled_"},
        ORDERS | {"windows": "9d", "as_of": "at", "prefix": "then_"},
    ],
    "decay": [OWN | {"half_life": "3d"}, ORDERS | {"columns": "spend", "half_life": "2d"}],
    "sessions": [OWN | {"gap": "30h"}],
    "time_since": [OWN | {"columns": "sent_back", "of": ["last", "first"]}, ORDERS],
    "rfm": [ORDERS | {"amount": "spend"}],
}


SINGLE_SERIES = {"key": [], "time": "at", "columns": "spend", "gap": 0, "prefix": "series_"}


def ops_of(*names: str) -> tuple[DerivedOp, ...]:
    """Return ops by their names, all of them without any."""
    wanted = names or tuple(OPS_BY_NAME)
    return derived_ops(OPS.get(name).model_validate(settings) for name in wanted for settings in OPS_BY_NAME[name])


def rows(n: int, seed: int) -> pa.Table:
    """Return rows in no order of time, some at the same hour, with nulls in all columns."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "customer": np.where(rng.random(n) < 0.4, 1.0, rng.integers(2, 7, n)),
            "shop": rng.choice(np.array(["north", "south", None], object), n, p=[0.6, 0.3, 0.1]),
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 30 * 24, n), unit="h"),
            "spend": np.where(rng.random(n) < 0.2, np.nan, rng.normal(20, 10, n)),
            "kind": rng.choice(np.array(["a", "b", "c", None], object), n),
            "sent_back": pd.array(list(rng.choice(np.array([True, False, None], object), n)), "boolean"),
        }
    )
    frame.loc[rng.random(n) < 0.1, "customer"] = np.nan
    frame.loc[rng.random(n) < 0.1, "at"] = pd.NaT
    return pa.Table.from_pandas(frame, preserve_index=False)


def sources(backend: Backend, n: int) -> DerivationSources:
    """Return `n` rows and as many orders, where `backend` computes."""
    tables = {name: rows(n, seed) for seed, name in enumerate(("the table", "orders"))}
    main, orders = (HistoryRows.of_arrow(encode(arrow, backend), arrow, name) for name, arrow in tables.items())
    return DerivationSources(main, {"orders": EventTable(orders, ("customer",), ("customer",))}, backend)
