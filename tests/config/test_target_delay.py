"""Tests of the settings that state when a target is known: they must agree."""

from __future__ import annotations

from typing import Any

import pytest

from gpupipe.config import Config, parse_config
from gpupipe.errors import ConfigError

OWN = {"key": "store", "time": "day", "columns": "sold"}
EVENTS = {
    "source": {
        "target": "left",
        "entities": {
            "table": "orders",
            "as_of": ["2024-01-01", "2024-02-01", "2024-06-01"],
            "label": {"none": "orders", "within": "30d"},
        },
    },
    "tables": {"orders": {"path": "o.parquet", "on": "customer", "cardinality": "one_to_many", "time": "at"}},
}


def config(gap: str | None, *ops: dict[str, Any], **changes: Any) -> Config:
    split = {"time": "day"} | ({} if gap is None else {"gap": gap})
    settings = {"source": {"path": "sales.parquet", "target": "sold"}, "features": list(ops), "split": split}
    return parse_config(settings | changes)


@pytest.mark.parametrize("gap", ["7d", "168h", "500 rows", None])
def test_a_target_that_is_known_after_the_gap_may_be_a_feature(gap: str | None) -> None:
    config(gap, {"rolling": OWN | {"windows": "30d", "gap": "7d"}})


def test_a_gap_shorter_than_the_delay_of_the_target_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"1d is shorter than features\[0\]\.lag\.gap \(7d\)[\s\S]*set gap: 7d"):
        config("1d", {"lag": OWN | {"periods": "7d", "gap": "7d"}})


@pytest.mark.parametrize(
    "op",
    [
        {"rolling": OWN | {"windows": "3d", "gap": 0}},
        {"decay": OWN | {"half_life": "3d", "gap": "1d"}},
        {"aggregate": OWN | {"columns": {"sold": "mean"}, "gap": "1d"}},
        {"rfm": {"key": "store", "time": "day", "amount": "sold", "gap": "1d"}},
    ],
)
def test_a_window_that_reaches_targets_within_the_gap_is_refused(op: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"by split\.gap, a target is known after 7d") as caught:
        config("7d", op)
    assert f"features[0].{next(iter(op))}.gap" in str(caught.value)


def test_other_columns_may_be_known_earlier() -> None:
    config("7d", {"rolling": OWN | {"columns": "price", "windows": "3d", "gap": "1d"}})


def test_a_gap_shorter_than_the_period_of_the_labels_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"7d is shorter than source\.entities\.label\.within \(30d\)"):
        config(None, **EVENTS, split={"time": "as_of", "gap": "7d"})
    config(None, **EVENTS, split={"time": "as_of", "gap": "30d"})
