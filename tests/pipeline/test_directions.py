from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from gpupipe.config import parse_config
from gpupipe.pipeline.directions import direction_of
from gpupipe.pipeline.explanation import ExplainedRows
from gpupipe.pipeline.job import Job
from gpupipe.pipeline.leaderboard import LeaderboardResult
from gpupipe.pipeline.run import run_pipeline
from gpupipe.report.data import Direction
from gpupipe.table.schema import FIRST_LEVEL, NAT, NULL, Column

NUMBERS = Column("x", "numeric", "double", storage="float64")


@pytest.mark.parametrize("slope", [2.0, -0.5])
def test_the_direction_of_numbers_is_the_rank_correlation_of_known_values(slope: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, 500).astype(float)  # with ties
    output = slope * x + rng.normal(0, 10, 500)
    x[::7] = np.nan
    found = direction_of(NUMBERS, x, output)
    assert found is not None
    assert found.correlation == pytest.approx(spearmanr(x, output, nan_policy="omit").statistic)


def test_a_weak_correlation_has_no_sign_and_a_constant_has_no_direction() -> None:
    rng = np.random.default_rng(0)
    x, output = rng.normal(size=2_000), rng.normal(size=2_000)
    assert abs(spearmanr(x, output).statistic) < 0.1
    assert direction_of(NUMBERS, x, output) == Direction(correlation=0.0)
    assert direction_of(NUMBERS, np.ones(2_000), output) is None
    assert direction_of(NUMBERS, x, np.ones(2_000)) is None


def test_missing_times_take_no_part() -> None:
    times = np.arange(100) * 10**12
    times[::10] = NAT
    output = np.where(times == NAT, 1e9, np.arange(100.0))
    column = Column("t", "datetime", "timestamp[us]", storage="int64")
    found = direction_of(column, times, output)
    assert found is not None
    assert found.correlation == pytest.approx(1.0)


def test_levels_are_compared_by_their_mean_where_they_have_enough_rows() -> None:
    column = Column("c", "categorical", "string", storage="int8", levels=("low", "high", "rare"))
    codes = np.repeat([FIRST_LEVEL, FIRST_LEVEL + 1, FIRST_LEVEL + 2, NULL], [50, 40, 5, 30])
    output = np.repeat([0.2, 0.7, 0.99, 0.01], [50, 40, 5, 30])
    assert direction_of(column, codes, output) == Direction(highest="high", lowest="low")
    assert direction_of(column, codes, np.full(125, 0.5)) is None
    assert direction_of(column, codes[:50], output[:50]) is None


@pytest.mark.parametrize("split", [{"test_size": 0.4}, {"cv": 3}])
def test_explained_rows_are_those_of_the_matrix_they_come_with(
    split: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.permutation(600).astype(float), "z": rng.normal(size=600)})
    frame["y"] = 2.0 * frame.x + rng.normal(size=600)
    seen = []
    of = ExplainedRows.of

    def recorded(job: Job, outcome: LeaderboardResult) -> ExplainedRows | None:
        seen.append(of(job, outcome))
        return seen[0]

    monkeypatch.setattr(ExplainedRows, "of", staticmethod(recorded))
    config = parse_config(
        {
            "name": "x", "source": {"frame": frame, "target": "y"}, "split": split, "models": ["xgboost"],
            "evaluate": {"importance": {"rows": 100}}, "report": {"plots": False},
        }
    )  # fmt: skip
    run_pipeline(config, tmp_path / "run")
    (explained,) = seen
    assert explained is not None and len(explained.rows) == 100
    np.testing.assert_array_equal(explained.X[:, 0], frame.x.to_numpy()[explained.rows])
    np.testing.assert_array_equal(explained.truth.y, frame.y.to_numpy()[explained.rows])
    assert "▲ increases with it" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
