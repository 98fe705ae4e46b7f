"""Out-of-core runs: bit-identical to runs in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpupipe import Pipeline
from gpupipe.errors import LimitError
from tests.dask.run_checks import Left, assert_same_features, assert_same_files, run_on

CHURN = Path(__file__).parents[2] / "configs" / "churn.yaml"
SETTINGS = ("source.rows=3000", "models=[logistic_regression, xgboost: {n_estimators: 10}]")
ROWS_PER_BLOCK = 64


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, small_parts: Any) -> tuple[Left, Left]:
    """Return a run with its rows on the disk, and one in memory."""
    folder = tmp_path_factory.mktemp("runs")
    with small_parts(ROWS_PER_BLOCK), pytest.MonkeyPatch.context() as patch:
        alone = run_on(CHURN, folder / "in memory", SETTINGS)
        patch.setattr("gpupipe.pipeline.memory.ENOUGH", 1 << 60)
        patch.setattr("gpupipe.plan.run_plan.SHARE", 0.0)  # nothing fits
        patch.setattr("gpupipe.partitions.source_chunks.CHUNK_BYTES", 100_000)
        return run_on(CHURN, folder / "on the disk", SETTINGS), alone


def test_everything_is_the_same(both: tuple[Left, Left]) -> None:
    assert_same_features(*both)
    assert_same_files(*both)


def test_the_timeline_records_the_storage_of_the_rows_and_the_reason(both: tuple[Left, Left]) -> None:
    stages = json.loads((both[0].run.path / "timeline.json").read_text())["stages"]
    found = {stage["name"]: stage for stage in stages}
    for name in ("read", "features", "train xgboost"):
        assert found[name]["reason"].startswith("one partition at a time, the others on disk; in memory the run")
        assert [worker["address"] for worker in found[name]["workers"]] == ["this process"]
    assert found["features"]["workers"][0]["bytes_spilled"] > 0
    assert "6 partitions" in both[0].notes()


def test_no_rows_remain_in_the_run_directory(both: tuple[Left, Left]) -> None:
    assert [path.name for path in both[0].run.path.iterdir() if path.name.startswith(".")] == []
    assert [path.name for path in both[0].run.path.parent.iterdir() if path.name.startswith(".")] == []


def test_a_limit_that_nothing_fits_into_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    pipeline = Pipeline.from_yaml(CHURN, overrides=[*SETTINGS, "limits.memory=100MiB"])
    with pytest.raises(LimitError, match=r"even with its rows on disk\n(.*\n)*.*allow 0\.\d\d GiB"):
        pipeline.run(output=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_plan_says_that_the_rows_will_be_on_the_disk() -> None:
    plan = Pipeline.from_yaml(CHURN, overrides=["source.rows=4000000", "limits.memory=1GiB"]).plan()
    assert plan.error is None
    assert plan.host_bytes < 1 << 30
    read = next(stage for stage in plan.stages if stage.name == "read")
    assert read.parts > 5 and read.peak_host_bytes < 600 << 20  # generated rows arrive in chunks, too
    assert plan.to_json()["on_disk"].startswith("in memory the run would need")
    assert "in passes" in [note for stage in plan.stages for note in stage.notes]
