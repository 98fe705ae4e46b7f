"""The columns of the generated customers, as Arrow arrays with their missing values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gpupipe.readers.churn_customers import AGE_MISSING, CATEGORICALS, N_CITIES, NO_YES, CustomerBlock

DICTIONARY = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [("customerID", pa.string()), ("tenure", pa.int64())]
    + [(name, pa.float64()) for name in ("MonthlyCharges", "TotalCharges", "DataUsageGB")]
    + [("SupportCalls", pa.int64()), ("Age", pa.float64())]
    + [(name, DICTIONARY) for name in (*CATEGORICALS, "City")]
    + [("signup_ts", pa.timestamp("us")), ("Churn", DICTIONARY)]
)

_LEVELS = {name: pa.array(levels) for name, (levels, _) in CATEGORICALS.items()}
_LEVELS |= {"City": pa.array([f"city_{i:04d}" for i in range(N_CITIES)]), "Churn": pa.array(NO_YES)}


def column(block: CustomerBlock, name: str) -> Any:
    """Return one column of a block as an Arrow array of the type that `SCHEMA` gives it, missing values in place."""
    if name in CATEGORICALS:
        return pa.DictionaryArray.from_arrays(block.codes(name), _LEVELS[name])
    match name:
        case "customerID":
            return block.ids
        case "tenure":
            return pa.array(block.tenure)
        case "MonthlyCharges":
            return pa.array(block.monthly_charges, mask=block.is_missing(name, 0.02))
        case "TotalCharges":  # as in the Telco table: nothing has been charged before the first month is over
            return pa.array(block.total_charges, mask=block.is_missing(name, 0.03) | (block.tenure == 0))
        case "DataUsageGB":
            return pa.array(block.usage, mask=block.is_missing(name, 0.05))
        case "SupportCalls":
            return pa.array(block.support_calls)
        case "Age":
            return pa.array(block.age, mask=block.is_missing(name, AGE_MISSING))
        case "City":
            return pa.DictionaryArray.from_arrays(block.city, _LEVELS[name])
        case "signup_ts":
            return pa.array(block.signup * 1_000_000).cast(pa.timestamp("us"))
        case "Churn":
            return pa.DictionaryArray.from_arrays(block.churned, _LEVELS[name])
    raise KeyError(name)
