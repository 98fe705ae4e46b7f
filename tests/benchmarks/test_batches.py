"""Mini-batches compared with PyTorch's loaders: all yield the same rows, and a table shows their speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.batches.__main__ import rows_per_second, text_of
from benchmarks.batches.loaders import GPUPIPE, PANDAS, PLAIN, on_host, table

COMMAND = [sys.executable, "-m", "benchmarks.batches"]


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    X, _ = table(300, 4)
    return X, np.arange(300)


def test_every_implementation_gives_each_row_once(pair: tuple[Any, Any]) -> None:
    X, y = pair
    loaders = {name: loader for name, loader in on_host(X, y, 64).items() if "workers" not in name}
    assert len(loaders) == 8
    for name, loader in loaders.items():
        features, target = (torch.cat(parts) for parts in zip(*loader, strict=True))
        assert sorted(target.tolist()) == list(range(300)), name
        assert (features.numpy() == X[target.numpy()]).all(), name
        assert ("unshuffled" in name) == (target.tolist() == list(range(300))), name


def test_the_data_is_a_matrix_as_features_are_made() -> None:
    X, y = table(100, 3)
    assert (X.dtype, X.shape, X.flags.f_contiguous) == (np.float32, (100, 3), True)
    assert set(y.tolist()) == {0, 1}


def test_a_turn_ends_with_the_epoch_or_with_its_time(pair: tuple[Any, Any]) -> None:
    seen: list[int] = []

    def batches() -> Any:
        for _ in range(5):
            seen.append(1)
            yield torch.zeros(10, 2), None

    assert rows_per_second(batches(), 60.0, "cpu") > 0
    assert len(seen) == 5
    assert rows_per_second(batches(), 0.0, "cpu") > 0
    assert len(seen) == 6


def test_the_command_prints_a_table_and_writes_every_figure(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    small = ["--rows", "2000", "--columns", "3", "--batch-size", "256", "--turns", "2", "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [*COMMAND, *small, "--json", str(file)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text())
    assert {len(samples) for samples in figures["samples"].values()} == {2}
    assert figures["ours_times"][GPUPIPE] == 1.0
    assert figures["device"] == "cpu"
    assert figures["torch_threads"] >= 1
    assert "between_steps" not in figures
    assert PLAIN in done.stdout
    assert PANDAS in done.stdout


def test_on_a_gpu_the_table_shows_the_time_between_steps() -> None:
    figures = {
        "rows": 2000, "columns": 3, "batch_size": 256, "device": "a GPU", "torch": "2.13", "torch_threads": 2,
        "machine": {"load_average": [0.5]}, "seconds_of_the_copy": 0.1, "rows_per_second": {GPUPIPE: 2e7, PLAIN: 1e5},
        "ours_times": {GPUPIPE: 1.0, PLAIN: 200.0}, "between_steps": {GPUPIPE: 0.04, PLAIN: 0.9},
    }  # fmt: skip
    said = text_of(figures).splitlines()
    assert "between steps" in said[1]
    assert said[2].split() == ["gpupipe", "20.000", "1.0", "x", "4.0%"]
    assert said[3].split() == ["DataLoader", "0.100", "200.0", "x", "90.0%"]
