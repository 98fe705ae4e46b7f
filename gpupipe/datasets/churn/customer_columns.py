"""The columns of the generated customers: types, levels, values and missing values."""

from __future__ import annotations

import pyarrow as pa

from gpupipe.datasets.churn.customers import CustomerBlock
from gpupipe.datasets.churn.population import CATEGORICALS, N_CITIES, NO_YES
from gpupipe.typing import Array

DICTIONARY = pa.dictionary(pa.int32(), pa.string())
ID = "customerID"
SCHEMA = pa.schema(
    [(ID, pa.string()), ("tenure", pa.int64())]
    + [(name, pa.float64()) for name in ("MonthlyCharges", "TotalCharges", "DataUsageGB")]
    + [("SupportCalls", pa.int64()), ("Age", pa.float64())]
    + [(name, DICTIONARY) for name in (*CATEGORICALS, "City")]
    + [("signup_ts", pa.timestamp("us")), ("Churn", DICTIONARY)]
)

LEVELS = {name: pa.array(levels) for name, (levels, _) in CATEGORICALS.items()}
LEVELS |= {"City": pa.array([f"city_{i:04d}" for i in range(N_CITIES)]), "Churn": pa.array(NO_YES)}

_NUMBERS = {
    "tenure": "tenure",
    "MonthlyCharges": "monthly_charges",
    "TotalCharges": "total_charges",
    "DataUsageGB": "usage",
    "SupportCalls": "support_calls",
    "Age": "age",
}


def values(block: CustomerBlock, name: str) -> tuple[Array, Array | None]:
    """Return a column of a block, where the block is, and which of its rows are missing (None: none are).

    Codes of `LEVELS` are int32, numbers of the type that `SCHEMA` says, times int64 microseconds; there are no
    identifiers: they are texts.
    """
    if name in CATEGORICALS:
        return block.codes(name), None
    match name:
        case "City":
            return block.city, None
        case "Churn":
            return block.churned, None
        case "signup_ts":
            return block.signup * 1_000_000, None
    return getattr(block, _NUMBERS[name]), block.missing(name)


def column(block: CustomerBlock, name: str) -> pa.Array:
    """Return a column of a block of the host as an Arrow array of the type that `SCHEMA` gives it."""
    found, missing = values(block, name)
    if name in LEVELS:
        return pa.DictionaryArray.from_arrays(found, LEVELS[name])
    kind = SCHEMA.field(name).type
    return pa.array(found, mask=missing).cast(kind)
