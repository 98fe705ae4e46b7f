"""Equality of repeated trainings to the last bit: the table of docs/guide/runs.md, by model and number of threads.

``python tests/pipeline/test_determinism.py MODEL ...`` trains each model twice, and prints hashes of what it learned.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

GUIDE = Path(__file__).parents[2] / "docs/guide/runs.md"
ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (equal|may differ) \| (equal|may differ) \|$", re.MULTILINE)
PARAMS: dict[str, dict[str, Any]] = {
    "best": {"models": ["logistic_regression", "xgboost"], "folds": 2},
    "mlp": {"epochs": 2}, "tabm": {"epochs": 2, "width": 32, "members": 4},
    "ft_transformer": {"epochs": 1, "depth": 1, "embedding_size": 8, "hidden": 16},
    "catboost": {"iterations": 20}, "kmeans": {"n_clusters": 4},
}  # fmt: skip
REGRESSIONS = ("linear_regression", "ridge", "lasso", "elastic_net")
CLAIMS = [
    (name, *claims) for names, *claims in ROW.findall(GUIDE.read_text()) for name in re.findall(r"\w+", names)
]  # fmt: skip


def learned(model: str, folder: Path) -> str:
    """Train a model, and return the hash of its predictions and of the files of its estimator."""
    import gpupipe as gp
    from gpupipe.artifact import ArtifactReader

    target = {"kmeans": None, "pca": None, **dict.fromkeys(REGRESSIONS, "MonthlyCharges")}.get(model, "Churn")
    source = {"generate": "churn", "rows": 8_000, "drop": ["customerID"]}
    entry = {model: PARAMS.get(model, {})}
    options: dict[str, Any] = {"report": {"enabled": False}, "evaluate": {"importance": False}, "device": "cpu"}
    run = gp.Pipeline(source, target=target, models=[entry], **options).run(folder, quiet=True)
    reader = ArtifactReader(run.path / "model")
    parts = [reader.read(name) for name in sorted(reader.manifest["estimator"]["files"])]
    frame = run.predictions.to_csv().encode()
    return hashlib.sha256(b"".join([frame, *parts])).hexdigest()


def trained(threads: int, models: list[str]) -> dict[str, list[str]]:
    """Return the hashes of two trainings of each model, in a process with that many threads."""
    environment = {**os.environ, "GPUPIPE_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, *models]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_the_table_has_every_model_once() -> None:
    from gpupipe.models.base import MODELS

    assert sorted(name for name, *_ in CLAIMS) == sorted({*MODELS.names()} - {"estimator"})


@pytest.mark.nightly("gpupipe/models/", "gpupipe/training/", "gpupipe/backends/")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two processor cores")
def test_models_that_the_guide_calls_equal_are_equal_to_the_last_bit() -> None:
    models = [name for name, *_ in CLAIMS]
    one, two = (trained(threads, models) for threads in (1, 2))
    for name, again, elsewhere in CLAIMS:
        assert again == "may differ" or (two[name][0] == two[name][1] and one[name][0] == one[name][1]), name
        assert elsewhere == "may differ" or one[name][0] == two[name][0], name


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        print(json.dumps({name: [learned(name, Path(place, f"{name}{i}")) for i in (1, 2)] for name in sys.argv[1:]}))
