"""Histories of values that become known some time after their rows, against pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe import FeatureProgram
from gpupipe.backends import choose
from gpupipe.config.features import read_op
from gpupipe.errors import ConfigError
from gpupipe.features.history.derivation import derived_ops
from gpupipe.features.history.key_partitions import derive_partition, merge_partitions
from gpupipe.features.history.tables import DerivationSources, HistoryRows
from gpupipe.features.ops.keyed_op import KeyedOp
from gpupipe.table.encode import encode
from tests.features.histories import rows

DAY = pd.Timedelta(days=1)
SERIES = {"key": "store", "time": "day"}


@pytest.fixture(scope="module")
def sales() -> pd.DataFrame:
    """Return the daily sales of three stores, a row each day, shuffled, with nulls."""
    rng = np.random.default_rng(1)
    days = pd.date_range("2024-01-01", periods=80)
    frame = pd.DataFrame([(store, day) for store in ("a", "b", "c") for day in days], columns=["store", "day"])
    frame["sold"] = np.where(rng.random(len(frame)) < 0.1, np.nan, rng.normal(50, 20, len(frame)).round(1))
    return frame.sample(frac=1.0, random_state=0, ignore_index=True)


@pytest.fixture(scope="module")
def uneven() -> pd.DataFrame:
    """Return rows at odd times, some at the same hour, some without key or time."""
    return rows(500, 4).to_pandas()


def made(frame: pd.DataFrame, op: dict[str, Any]) -> pd.DataFrame:
    program = FeatureProgram([op], view="codes").fit(frame)
    matrix: Any = program.transform(frame)
    all_names: Any = program.get_feature_names_out()
    derivation = program.fitted_.derivation
    assert derivation is not None
    return pd.DataFrame(matrix, columns=all_names)[[name for name in all_names if name in derivation.made]]


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(["store", "day"])


def test_a_lag_that_is_known_at_once_is_the_shift_of_pandas(sales: pd.DataFrame) -> None:
    found = made(sales, {"lag": SERIES | {"columns": "sold", "periods": [1, 3], "gap": 0}})
    for k in (1, 3):
        expected = in_order(sales).groupby("store")["sold"].shift(k).reindex(sales.index)
        np.testing.assert_allclose(found[f"sold_lag_{k}"], expected.astype("float32"))


def test_a_lag_by_time_is_the_shift_by_as_many_days(sales: pd.DataFrame) -> None:
    found = made(sales, {"lag": SERIES | {"columns": "sold", "periods": ["7d", "14d"], "gap": "7d"}})
    for k in (7, 14):
        expected = in_order(sales).groupby("store")["sold"].shift(k).reindex(sales.index)
        np.testing.assert_allclose(found[f"sold_lag_{k}d"], expected.astype("float32"))


def test_a_lag_by_time_is_the_newest_row_that_is_old_enough(uneven: pd.DataFrame) -> None:
    found = made(uneven, {"lag": {"key": "customer", "time": "at", "columns": "spend", "periods": "36h"}})
    left = uneven.assign(row=np.arange(len(uneven)), then=uneven["at"] - pd.Timedelta(hours=36))
    left = left.dropna(subset=["customer", "at"]).sort_values("then", kind="stable")
    right = uneven.dropna(subset=["customer", "at"]).sort_values("at", kind="stable")[["customer", "at", "spend"]]
    joined = pd.merge_asof(
        left[["row", "then", "customer"]], right, left_on="then", right_on="at", by="customer", direction="backward"
    )
    expected = joined.set_index("row")["spend"].reindex(range(len(uneven)))
    assert expected.notna().mean() > 0.5
    np.testing.assert_allclose(found["spend_lag_36h"], expected.astype("float32"))


def test_the_first_lag_is_the_newest_value_that_is_known(sales: pd.DataFrame) -> None:
    found = made(sales, {"lag": SERIES | {"columns": "sold", "periods": [1, 2], "gap": "7d"}})
    for k in (1, 2):
        expected = in_order(sales).groupby("store")["sold"].shift(6 + k).reindex(sales.index)
        np.testing.assert_allclose(found[f"sold_lag_{k}"], expected.astype("float32"))


@pytest.mark.parametrize("gap", [1, 7])
def test_a_window_ends_where_values_are_known(sales: pd.DataFrame, gap: int) -> None:
    settings = {"columns": "sold", "functions": ["mean", "max"], "windows": ["5d", 3], "gap": f"{gap}d"}
    found = made(sales, {"rolling": SERIES | settings})
    known = in_order(sales)
    known["sold"] = known.groupby("store")["sold"].shift(gap)  # one row per day: the values known by then
    by_store = known.set_index("day").groupby("store")["sold"]
    for window, rows_of_it in (("5d", 5), ("3", 3)):
        for function in ("mean", "max"):
            figures: Any = by_store.rolling(f"{rows_of_it}D", min_periods=1).agg(function)
            expected = pd.MultiIndex.from_frame(sales[["store", "day"]]).map(figures)
            np.testing.assert_allclose(found[f"sold_{function}_{window}"], expected, rtol=2e-6)


def by_hand(frame: pd.DataFrame, gap: pd.Timedelta, figure: Any) -> list[float]:
    """Return `figure(what each row sees, when it looks)`: the definition, spelt out."""
    result = []
    row: Any
    for row in frame.itertuples():
        known = frame[frame["customer"] == row.customer]
        known = known[(known["at"] <= row.at - gap) if gap else (known["at"] < row.at)]
        result.append(figure(known, row.at - gap))
    return result


@pytest.mark.parametrize("hours", [0, 30])
def test_sums_decays_and_ages_count_from_when_values_are_known(uneven: pd.DataFrame, hours: int) -> None:
    gap, own = pd.Timedelta(hours=hours), {"key": "customer", "time": "at", "gap": f"{hours}h"}

    def decayed(known: pd.DataFrame, now: pd.Timestamp) -> float:
        age: Any = now - known["at"]
        return float((known["spend"] * 0.5 ** (age / (3 * DAY))).sum())

    def since(known: pd.DataFrame, now: pd.Timestamp) -> float:
        return float((now - known["at"].max()) / DAY) if len(known) else np.nan

    for op, name, figure in (
        ({"aggregate": own | {"columns": {"spend": "sum"}}}, "spend_sum", lambda known, now: known["spend"].sum()),
        ({"decay": own | {"columns": "spend", "half_life": "3d"}}, "spend_decay_3d", decayed),
        ({"time_since": own}, "time_since_last", since),
    ):
        expected = by_hand(uneven, gap, figure)
        np.testing.assert_allclose(made(uneven, op)[name], expected, rtol=1e-5, atol=1e-4, err_msg=name)


def test_a_difference_uses_known_values_only(sales: pd.DataFrame) -> None:
    found = made(sales, {"difference": SERIES | {"columns": "sold", "gap": "2d"}})
    known = in_order(sales).groupby("store")["sold"]
    expected = (known.shift(2) - known.shift(3)).reindex(sales.index)
    np.testing.assert_allclose(found["sold_difference_1"], expected, atol=1e-4)


def test_a_single_series_has_no_key(sales: pd.DataFrame) -> None:
    one = sales[sales["store"] == "a"].reset_index(drop=True)
    found = made(one, {"lag": {"key": [], "time": "day", "columns": "sold"}})
    expected = one.sort_values("day")["sold"].shift(1).reindex(one.index)
    np.testing.assert_allclose(found["sold_lag_1"], expected.astype("float32"))


def test_some_keys_at_a_time_give_the_same() -> None:
    backend, table = choose("cpu"), rows(400, 2)
    there = DerivationSources(HistoryRows.of_arrow(encode(table, backend), table, "the table"), {}, backend)
    own = {"key": "customer", "time": "at", "gap": "1d"}
    for settings in ({"lag": own | {"columns": "spend", "periods": [1, "3d"]}}, {"rolling": own | {"windows": "9d"}}):
        (op,) = derived_ops([read_op(settings)])
        assert isinstance(op, KeyedOp)
        keys = op.keys(there)
        parts = [derive_partition(op, there, keys, a, b) for a, b in ((0, 2), (2, keys.size))]
        for found, whole in zip(merge_partitions(parts, there), op.derive(there), strict=True):
            np.testing.assert_array_equal(found.values, whole.values, err_msg=found.name)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (
            {"lag": SERIES | {"columns": "sold", "periods": "3d", "gap": "7d"}},
            "3d old are not known yet; expected at least the gap, 7d",
        ),
        ({"lag": SERIES | {"columns": "sold", "current": True, "gap": "7d"}}, "without as_of and gap"),
        ({"rolling": SERIES | {"windows": 3, "gap": -1}}, "gap"),
        ({"rolling": SERIES | {"windows": 3, "gap": "a week"}}, "expected a duration"),
    ],
)
def test_an_invalid_gap_is_rejected(sales: pd.DataFrame, op: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FeatureProgram([op]).fit(sales)


def test_the_derivation_keeps_the_gap(sales: pd.DataFrame) -> None:
    program = FeatureProgram([{"lag": SERIES | {"columns": "sold", "gap": "7d"}}], view="codes").fit(sales)
    later = sales.assign(sold=np.where(sales["day"] > "2024-03-01", np.nan, sales["sold"]))
    recent = (sales["day"] > "2024-03-01") & (sales["day"] <= "2024-03-08")
    at = list(program.get_feature_names_out()).index("sold_lag_1")
    np.testing.assert_array_equal(
        program.transform(later)[recent.to_numpy(), at], program.transform(sales)[recent.to_numpy(), at]
    )
