"""``gpupipe init``, through real processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Gpupipe = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A small table."""
    path = tmp_path / "sales.csv"
    rows = [f"{i},{i % 7},{'ab'[i % 2]},{'yes' if i % 3 else 'no'}" for i in range(60)]
    path.write_text("\n".join(["id,size,colour,sold", *rows]))
    return path


def test_init_writes_a_configuration_named_after_the_table(gpupipe: Gpupipe, table: Path) -> None:
    result = gpupipe("init", "sales.csv", "--target", "sold", cwd=table.parent)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1] == "wrote sales.yaml; next: gpupipe run sales.yaml"
    assert gpupipe("check", "sales.yaml", cwd=table.parent).returncode == 0


def test_init_keeps_a_file_that_is_there(gpupipe: Gpupipe, table: Path) -> None:
    config = table.parent / "mine.yaml"
    config.write_text("precious")
    args = ("init", "sales.csv", "--target", "sold", "-o", "mine.yaml")
    result = gpupipe(*args, cwd=table.parent)
    assert result.returncode == 2
    assert "mine.yaml is there already" in result.stderr
    assert config.read_text() == "precious"
    assert gpupipe(*args, "--force", cwd=table.parent).returncode == 0
    assert config.read_text() != "precious"


def test_init_without_a_target_lists_the_columns_and_writes_nothing(gpupipe: Gpupipe, table: Path) -> None:
    result = gpupipe("init", "sales.csv", cwd=table.parent)
    assert result.returncode == 0
    assert "60 rows, 4 columns" in result.stdout
    assert "gpupipe init sales.csv --target sold" in result.stdout
    assert list(table.parent.glob("*.yaml")) == []


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("sales.csv", "--target", "slod"), 2, "did you mean 'sold'?"),
        (("slaes.csv", "--target", "sold"), 5, "did you mean 'sales.csv'?"),
        (("sales.csv", "--target", "sold", "--clustering"), 2, "leave out one of the two"),
        (("sales.csv", "--target", "sold", "-o", "no/where.yaml"), 2, "there is no folder no"),
    ],
)
def test_a_slip_is_answered_with_what_to_do(
    gpupipe: Gpupipe, table: Path, args: tuple[str, ...], code: int, message: str
) -> None:
    result = gpupipe("init", *args, cwd=table.parent)
    assert result.returncode == code
    assert message in result.stderr
    assert list(table.parent.glob("*.yaml")) == []


@pytest.mark.data
def test_telco_scores_well_with_no_edits(gpupipe: Gpupipe, data_dir: Path, tmp_path: Path) -> None:
    table = data_dir / "telco-churn" / "Telco-Customer-Churn.csv"
    assert gpupipe("init", table, "--target", "Churn", "-o", "telco.yaml", cwd=tmp_path).returncode == 0
    quickly = ("--set", "report.enabled=false", "--set", "evaluate.importance=false")
    result = gpupipe("run", "telco.yaml", "--output", "run", "--json", *quickly, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["models"][metrics["best"]]["roc_auc"] >= 0.8403
