"""Tests of the scikit-learn cross-validator, used by scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score

import gpupipe as gp

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.permutation(300), "h"),
        "shop": RNG.integers(0, 12, 300),
        "x": RNG.normal(size=300),
    }
)
Y = FRAME["x"] + RNG.normal(size=300)


def numbers(splitter: gp.GroupTimeSplit, *given: Any, **named: Any) -> list[tuple[list[int], list[int]]]:
    return [(train.tolist(), test.tolist()) for train, test in splitter.split(*given, **named)]


def test_without_groups_it_is_a_time_series_split() -> None:
    order = np.argsort(FRAME["at"].to_numpy())
    expected = [(sorted(order[a]), sorted(order[b])) for a, b in TimeSeriesSplit(5).split(FRAME)]
    assert numbers(gp.GroupTimeSplit("at"), FRAME) == expected


def test_scikit_learn_uses_it() -> None:
    splitter = gp.GroupTimeSplit(FRAME["at"], n_splits=3, gap="6h")
    X = FRAME[["x"]]
    scores = cross_val_score(Ridge(), X, Y, groups=FRAME["shop"], cv=splitter)
    assert len(scores) == splitter.get_n_splits() == 3
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=splitter).fit(X, Y)
    assert search.n_splits_ == 3
    assert clone(search).fit(X, Y).best_params_ == search.best_params_


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_frames_arrays_and_configuration_agree(zone: str | None, tmp_path: Any) -> None:
    frame = FRAME.assign(at=FRAME["at"].dt.tz_localize("UTC").dt.tz_convert(zone) if zone else FRAME["at"])
    splitter = gp.GroupTimeSplit("at", "shop", n_splits=3, gap="6h", seed=0)
    found = numbers(splitter, frame)
    assert found == numbers(splitter, pa.Table.from_pandas(frame))
    assert found == numbers(gp.GroupTimeSplit("at", n_splits=3, gap="6h"), frame, groups=frame["shop"])
    pipeline = gp.Pipeline(
        frame.assign(y=Y),
        target="y",
        models=["ridge"],
        split={"time": "at", "group": "shop", "cv": 3, "gap": "6h"},
        report={"enabled": False},
    )
    predictions = pipeline.run(tmp_path / "run").predictions
    tested = [sorted(rows["row"]) for _, rows in predictions.groupby("fold")]
    assert tested == [test for _, test in found]


def test_settings_are_checked_when_it_is_made() -> None:
    with pytest.raises(gp.ConfigError, match=r"expected a duration[\s\S]*GroupTimeSplit: gap"):
        gp.GroupTimeSplit("at", gap="soon")
    with pytest.raises(gp.ConfigError, match="rolling needs n_splits"):
        gp.GroupTimeSplit("at", n_splits=1, window="rolling")
    with pytest.raises(gp.ConfigError, match=r"greater than or equal to 2[\s\S]*GroupTimeSplit: n_splits"):
        gp.GroupTimeSplit("at", n_splits=0)
    assert repr(gp.GroupTimeSplit("at", "shop", gap="7d")).startswith("GroupTimeSplit('at', 'shop', n_splits=5, gap=")


def test_missing_times_are_refused() -> None:
    frame = FRAME.assign(at=FRAME["at"].where(FRAME.index > 4))
    with pytest.raises(gp.DataError, match="5 rows have no time to split by"):
        next(gp.GroupTimeSplit("at").split(frame))
