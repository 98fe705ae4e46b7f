"""``gpupipe check``, through real processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

Gpupipe = Callable[..., subprocess.CompletedProcess[str]]


def test_check_says_what_a_right_configuration_holds(gpupipe: Gpupipe, churn: Path) -> None:
    result = gpupipe("check", "churn.yaml", cwd=churn.parent)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "OK churn.yaml: source churn; 2 feature ops; logistic_regression, xgboost\n"


def test_check_takes_overrides(gpupipe: Gpupipe, churn: Path) -> None:
    result = gpupipe("check", str(churn), "--set", "model=random_forest", "--set", "features=[{log1p: a}]")
    assert result.returncode == 0
    assert result.stdout.endswith("1 feature op; random_forest\n")


def test_check_shows_every_mistake_and_exits_with_2(gpupipe: Gpupipe, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "source: {generate: churn, tagret: churned}\nsead: 7\nfeatures:\n  - hash_bukcet: a\n"
    )
    result = gpupipe("check", "c.yaml", "--set", "device=tpu", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "Configuration error: 4 mistakes in c.yaml:",
        "c.yaml:1:27: source.tagret: unknown key; did you mean 'target'?",
        "c.yaml:2:1: sead: unknown key; did you mean 'seed'?",
        "c.yaml:4:5: features[0].hash_bukcet: unknown feature op; did you mean 'hash_bucket'?",
        "--set device=tpu: device: expected 'auto', 'cpu' or 'gpu', got 'tpu'; did you mean 'gpu'?",
    ]


def test_a_missing_configuration_is_one_screen_with_what_to_do(gpupipe: Gpupipe, churn: Path) -> None:
    result = gpupipe("check", "chrun.yaml", cwd=churn.parent)
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "Configuration error: there is no configuration chrun.yaml",
        "  to do: did you mean 'churn.yaml'?",
    ]
