"""group_stats against grouped pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.errors import ConfigError

RNG = np.random.default_rng(4)
N = 400
STATS = ["mean", "std", "min", "max", "count", "difference", "ratio", "z_score"]


def frame() -> pd.DataFrame:
    found = pd.DataFrame(
        {
            "city": RNG.choice(np.array(["Rome", "Oslo", "Bonn", None], object), N),
            "plan": RNG.choice(["basic", "plus"], N),
            "amount": 1e7 + RNG.normal(size=N).round(2),
        }
    )
    found.loc[RNG.random(N) < 0.2, "amount"] = np.nan
    return found


def made(rows: pd.DataFrame, new: pd.DataFrame, by: Any, weights: Any = None) -> pd.DataFrame:
    op = {"group_stats": {"columns": "amount", "by": by, "stats": STATS}}
    program = gp.FeatureProgram([op], view="codes").set_output(transform="pandas")
    found: pd.DataFrame = program.fit(rows, sample_weight=weights).transform(new)
    return found


def expected(rows: pd.DataFrame, new: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    key, new_key = _keys(rows[by]), _keys(new[by])
    grouped = rows["amount"].groupby(key)
    amount = new["amount"].to_numpy()
    found, everything = {}, {"mean": rows["amount"].mean(), "std": rows["amount"].std(ddof=0)}
    everything |= {"min": rows["amount"].min(), "max": rows["amount"].max(), "count": 0}
    tables = {"mean": grouped.mean(), "std": grouped.std(ddof=0), "min": grouped.min(), "max": grouped.max()}
    for stat, table in {**tables, "count": grouped.count()}.items():
        found[stat] = table.reindex(new_key).fillna(everything[stat]).to_numpy()
    found["difference"], found["ratio"] = amount - found["mean"], amount / found["mean"]
    return pd.DataFrame(found).assign(z_score=lambda f: f["difference"] / f["std"])


def _keys(columns: pd.DataFrame) -> Any:
    """Return one text for each row; all rows with a null have the same."""
    return np.where(columns.isna().any(axis=1), "null", columns.fillna("").agg("|".join, axis=1))


@pytest.mark.parametrize("by", [["city"], ["city", "plan"]])
def test_statistics_match_pandas_also_for_groups_never_seen(by: list[str]) -> None:
    rows = frame()
    new = pd.concat([rows.head(60), pd.DataFrame({"city": ["Ulm"], "plan": ["plus"], "amount": [1e7 + 3]})])
    ours, theirs = made(rows, new, by), expected(rows, new, by)
    for stat in STATS:
        values = ours[f"amount_{stat}_by_{'_and_'.join(by)}"].to_numpy()
        if stat in ("mean", "min", "max"):  # float32 would lose the differences, so these are centred, with a warning
            values, theirs[stat] = values - values[0], theirs[stat] - theirs[stat].iloc[0]
        # float32 holds a difference of the number at 1e7 with 2 digits because the median is subtracted first
        np.testing.assert_allclose(values, theirs[stat], rtol=2e-4, atol=2e-4, err_msg=stat)


def test_weights_count_as_repeated_rows_and_later_ops_select_the_columns() -> None:
    rows = frame()
    weights = RNG.integers(1, 4, N)
    once, repeated = made(rows, rows, "city", weights), made(rows.loc[rows.index.repeat(weights)], rows, "city")
    pd.testing.assert_frame_equal(once, repeated, rtol=1e-5)
    ops: list[dict[str, Any]] = [{"group_stats": {"columns": "amount", "by": "plan"}}, {"drop": "amount_std_by_plan"}]
    names = gp.FeatureProgram(ops, view="codes").fit(rows).get_feature_names_out()
    assert sorted(names) == ["amount", "amount_mean_by_plan", "city", "plan"]


def test_wrong_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="group_stats takes categorical columns; 'amount' is numeric"):
        made(frame(), frame(), "amount")
    both: list[dict[str, Any]] = [{"bucketize": {"columns": name, "bins": 3}} for name in ("a", "b")]
    rows = pd.DataFrame({"a": RNG.random(50), "b": RNG.random(50), "c": RNG.random(50)})
    with pytest.raises(ConfigError, match="'a' and 'b' are both made by ops"):
        gp.FeatureProgram([*both, {"group_stats": {"columns": "c", "by": ["a", "b"]}}]).fit(rows)
