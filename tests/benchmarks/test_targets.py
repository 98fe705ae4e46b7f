"""The comparison of joint trees and a model per target: scores of both on the same rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import targets


def test_both_sides_are_measured_on_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(1_200, 3)), columns=["a", "b", "same"])
    frame["near"], frame["far"] = frame["a"] + frame["b"], 1_000 * (frame["a"] - frame["b"])
    chosen = targets.Targets(("near", "far"), drop=("same",))
    found = targets.measure(frame, "small", chosen, seed=0, model={"n_estimators": 40, "early_stopping_rounds": None})
    assert [record["strategy"] for record in found] == list(targets.STRATEGIES)
    assert {record["rows"] for record in found} == {300}
    for record in found:
        assert record["r2"] == pytest.approx([0.9, 0.9], abs=0.1)
    assert "| small | 2 |" in targets.summarize(found)
