"""Generated tables, copied to the device: bit-identical to the host's."""

from __future__ import annotations

from typing import Any

import pytest

from gpupipe.config import parse_config
from tests.gpu.tables import assert_same_table


@pytest.mark.parametrize(
    "source",
    [
        {"rows": 50_000, "target": "Churn", "drop": ["customerID"]},
        {"rows": 54_321, "seed": 2**64 - 1, "columns": ["Churn", "*Charges", "City", "signup_ts"]},
        {"rows": 2_000, "where": "customerID > '5' and tenure < 60", "target": "Churn"},
        {"rows": 2_000, "generate": "churn_events", "target": "amount"},
    ],
    ids=str,
)
def test_generated_tables_on_the_device(source: dict[str, Any]) -> None:
    assert_same_table(parse_config({"source": {"generate": "churn", "cache": False, **source}}))
