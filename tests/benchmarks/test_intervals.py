"""The comparison of intervals and sets: coverage and size of both sides on the same predictions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import intervals
from benchmarks.answers.tables import AnswerTable, Task


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_both_sides_are_measured_on_the_same_rows(task: Task) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(800, 3)), columns=["a", "b", "when"])
    score = frame["a"] + rng.normal(size=800)
    targets = {"binary": score > 0, "multiclass": np.digitize(score, [-0.5, 0.5]), "regression": score}
    table = AnswerTable("small", "made up", "", "y", task, 800, 2, "none", drop={"when": "not needed"})
    (found,) = intervals.measure(frame.assign(y=targets[task]), table, seed=0, levels=[0.9])
    assert found["rows"] == 200
    assert found["coverage"] == pytest.approx(0.9, abs=0.08)
    if task == "regression":
        assert (found["coverage"], found["size"]) == pytest.approx((found["mapie_coverage"], found["mapie_size"]))
    elif task == "multiclass":
        assert found["mapie_size"] == pytest.approx(found["size"], rel=0.1)
    assert "| small |" in intervals.summarize([found])
