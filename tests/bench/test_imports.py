"""Imports of the processes that a benchmark measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpupipe.datasets.churn import write
from tests.import_budget import require_few_imports

CONFIG = Path(__file__).parents[2] / "configs" / "bench_churn.yaml"


@pytest.mark.parametrize(("model", "kind"), [("none", "features"), ("logistic_regression", "linear")])
def test_a_measured_process_imports_what_it_needs(
    model: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "churn.parquet", rows=500)
    monkeypatch.setenv("CHURN_FILE", str(tmp_path / "churn.parquet"))
    command = [sys.executable, "-X", "importtime", "-m", "gpupipe.bench.child", "stages", str(CONFIG)]
    options = ["--model", model, "--set", "source.schema.City=categorical", "--json", str(tmp_path / "out.json")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    require_few_imports(done.stderr, kind)
