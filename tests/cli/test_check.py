"""``gpupipe check``, in real processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.import_budget import READING, require_few_imports

Gpupipe = Callable[..., subprocess.CompletedProcess[str]]


def imported(importtime: str) -> set[str]:
    """Return the packages that ``-X importtime`` lists."""
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in importtime.splitlines() if "|" in line}


def test_check_resolves_a_valid_configuration_against_its_rows(gpupipe_process: Gpupipe, churn: Path) -> None:
    right = ("--set", "source.target=Churn", "--set", "split.cv=5", "--set", "features=[{encode: '@categorical'}]")
    result = gpupipe_process("check", "churn.yaml", *right, cwd=churn.parent, python=("-X", "importtime"))
    assert result.returncode == 0
    first, second, third = result.stdout.splitlines()
    assert first == "OK churn.yaml: source churn; 1 feature op; logistic_regression, xgboost"
    assert second.startswith("  a sample of 20,000 rows; binary: Churn is 'Yes' (positive) or 'No'; ")
    assert third == (
        "  warning: text column 'customerID' dropped; "
        "derive features with `- text_vectors: customerID`, or list it in source.drop"
    )
    require_few_imports(result.stderr, "check")


def test_check_without_data_opens_no_table(gpupipe_process: Gpupipe, churn: Path) -> None:
    result = gpupipe_process("check", "--no-data", "churn.yaml", cwd=churn.parent, python=("-X", "importtime"))
    assert result.returncode == 0
    assert result.stdout == "OK churn.yaml: source churn; 2 feature ops; logistic_regression, xgboost\n"
    assert imported(result.stderr) & (READING | {"numpy", "pyarrow"}) == set()


def test_check_takes_overrides(gpupipe: Gpupipe, churn: Path) -> None:
    overrides = ("--set", "model=random_forest", "--set", "features=[{log1p: a}]")
    result = gpupipe("check", str(churn), "--no-data", *overrides)
    assert result.returncode == 0
    assert result.stdout.endswith("1 feature op; random_forest\n")


def test_check_says_how_many_columns_generate_may_add(gpupipe: Gpupipe, churn: Path) -> None:
    generate = "features=[{generate: {arithmetic: 20, crosses: 5, groups: 0}}]"
    result = gpupipe("check", "churn.yaml", "--set", "source.target=Churn", "--set", generate, cwd=churn.parent)
    assert result.stdout.splitlines()[1].endswith("; generate adds up to 25 more")


def test_check_reports_every_error_found_in_the_rows(gpupipe: Gpupipe, churn: Path) -> None:
    result = gpupipe("check", "churn.yaml", "--set", "features=[{log1p: Agee}]", cwd=churn.parent)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "Configuration error: 2 errors in churn.yaml:",
        "churn.yaml:1:35: source.target: no column 'churned'; did you mean 'Churn'?",
        "--set features=[{log1p: Agee}]: features[0].log1p: no column 'Agee'; did you mean 'Age'?",
    ]


def test_a_table_that_is_absent_is_exit_code_5(gpupipe: Gpupipe, churn: Path) -> None:
    path = ("--set", "source={path: gone.csv, target: Churn}")
    assert gpupipe("check", str(churn), *path, "--no-data").returncode == 0
    result = gpupipe("check", str(churn), *path)
    assert result.returncode == 5
    assert "no such file" in result.stderr and "--no-data" in result.stderr


def test_check_reports_every_error_and_exits_with_2(gpupipe: Gpupipe, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "source: {generate: churn, tagret: churned}\nsead: 7\nfeatures:\n  - hash_bukcet: a\n"
    )
    result = gpupipe("check", "c.yaml", "--set", "device=tpu", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "Configuration error: 4 errors in c.yaml:",
        "c.yaml:1:27: source.tagret: unknown key; did you mean 'target'?",
        "c.yaml:2:1: sead: unknown key; did you mean 'seed'?",
        "c.yaml:4:5: features[0].hash_bukcet: unknown feature op; did you mean 'hash_bucket'?",
        "--set device=tpu: device: expected 'auto', 'cpu' or 'gpu', got 'tpu'; did you mean 'gpu'?",
    ]


def test_a_missing_configuration_is_one_screen_with_a_fix(gpupipe: Gpupipe, churn: Path) -> None:
    result = gpupipe("check", "chrun.yaml", cwd=churn.parent)
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "Configuration error: configuration file not found: chrun.yaml",
        "  to do: did you mean 'churn.yaml'?",
    ]
