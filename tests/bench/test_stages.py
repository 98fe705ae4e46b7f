"""Stages of gpupipe's own runs, in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe.bench.clock import StageClock
from gpupipe.bench.models import choose_model
from gpupipe.bench.sample import require_complete
from gpupipe.bench.stages import run_stages
from gpupipe.config import load_config
from gpupipe.errors import ConfigError
from gpupipe.pipeline.api.pipeline import Pipeline

FEATURES = {"features_fit", "features_transform_train", "features_transform_test"}


def test_the_stages_reach_the_scores_of_a_run(binary: Path, tmp_path: Path) -> None:
    config = load_config(binary, ["models=[logistic_regression]", "evaluate.metrics=[roc_auc, f1]"])
    run = Pipeline(config).run(tmp_path / "run")
    report = run_stages(config, choose_model(config, None), StageClock())
    assert {name: report[name] for name in run.metrics} == pytest.approx(run.metrics)


def test_a_report_follows_the_protocol_of_the_peers(binary: Path) -> None:
    config = load_config(binary)
    report = run_stages(config, choose_model(config, "hist_gradient_boosting"), StageClock())
    require_complete(report, "ours")
    assert set(report["stages_s"]) == {"imports", "read", "split", *FEATURES, "train", "evaluate", "save"}
    assert report["stages_s"].keys() == report["stages_cpu_s"].keys()
    assert report["rows"] == 300
    assert report["features"] == 3  # codes: the view of gradient boosting
    assert report["model"] == "hist_gradient_boosting (defaults=library, max_iter=5)"
    assert (report["metric"], report["device"]) == ("roc_auc", "cpu")
    assert report["peak_rss_mib"] > 10


def test_without_a_model_it_ends_with_the_features(binary: Path) -> None:
    config = load_config(binary)
    report = run_stages(config, choose_model(config, "none"), StageClock(), features_only=True)
    assert set(report["stages_s"]) == {"read", "split", *FEATURES}
    assert report["model"] is None
    assert "roc_auc" not in report


def test_regression_from_a_csv_file_takes_the_first_fold(regression: Path) -> None:
    config = load_config(regression)
    report = run_stages(config, choose_model(config, None), StageClock())
    assert (report["task"], report["metric"]) == ("regression", "r2")
    assert 0 < report["r2"] < 1


def test_the_task_determines_the_default_model(regression: Path) -> None:
    config = load_config(regression, ["models=[]"])
    assert run_stages(config, choose_model(config, None), StageClock())["model"] == "ridge"


def test_a_model_that_cannot_learn_the_task_is_refused(regression: Path) -> None:
    config = load_config(regression)
    with pytest.raises(ConfigError, match="cannot learn this task"):
        run_stages(config, choose_model(config, "lr"), StageClock())
