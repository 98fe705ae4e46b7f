"""Recovery from out-of-memory errors: rows are split, the result has the same bytes, and a note reports it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gpupipe.backends import choose
from gpupipe.backends.out_of_memory import LEAST_ROWS, is_out_of_memory, map_row_ranges
from gpupipe.errors import LimitError
from gpupipe.timeline.timeline import Timeline

ROOT = Path(__file__).parents[2]
ROWS = 300_000

PREDICT = """
import hashlib, resource, sys
import numpy as np
from gpupipe import load_model
from gpupipe.datasets.churn import customers

model = load_model(sys.argv[1], "cpu")
data = customers({rows}, 5, None)
model.predict_proba(data.slice(0, 5000))  # what is loaded once is loaded before the limit
if int(sys.argv[2]):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[2]) << 20),) * 2)
print(hashlib.sha256(np.ascontiguousarray(model.predict_proba(data)).tobytes()).hexdigest())
print(*model.backend.take_notes(), sep="\\n")
"""


@pytest.fixture
def backend():
    return choose("cpu")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """Return the directory of a small run."""
    from gpupipe.config import parse_config
    from gpupipe.pipeline.run import run_pipeline

    config = parse_config(
        {
            "source": {"generate": "churn", "rows": 4000, "target": "Churn", "positive": "Yes", "drop": ["customerID"]},
            "models": ["logistic_regression"],
            "report": {"enabled": False},
        }
    )
    return run_pipeline(config, tmp_path_factory.mktemp("split") / "run").path


def predict(model: Path, megabytes: int) -> list[str]:
    """Predict 300,000 rows in a process that may allocate `megabytes` more (0: no limit)."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}
    code = PREDICT.format(rows=ROWS)
    command = [sys.executable, "-c", code, str(model), str(megabytes)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
def test_a_prediction_that_runs_out_of_memory_continues_in_batches_with_the_same_bytes(model):
    expected, *nothing = predict(model, 0)
    assert not any(nothing)
    got, *notes = predict(model, 70)
    assert got == expected
    assert any(f"out of memory at {ROWS:,} rows: continued with " in note for note in notes)


def test_batches_are_halved_until_they_fit_and_stay_in_order(backend):
    def work(start: int, stop: int) -> list[int]:
        if stop - start > 3000:
            raise MemoryError("too many")
        return list(range(start, stop))

    with Timeline().stage("predict", backend.place) as stage:
        parts = map_row_ranges(work, 10_000, backend, "predict")
    assert np.concatenate(parts).tolist() == list(range(10_000))
    assert [len(part) for part in parts] == [2048, 2048, 2048, 2048, 1808]
    assert [note.text for note in stage.notes] == [
        "predict: out of memory at 10,000 rows: continued with 2,048 at a time"
    ]


def test_no_rows_are_one_part(backend):
    assert map_row_ranges(lambda start, stop: (start, stop), 0, backend, "predict") == [(0, 0)]


def test_a_lack_of_memory_for_few_rows_is_an_error_with_sizes_and_a_fix(backend):
    sizes = []

    def work(start: int, stop: int) -> None:
        sizes.append(stop - start)
        raise MemoryError("no room")

    with pytest.raises(LimitError, match="features: out of memory with 1,024 rows at a time") as caught:
        map_row_ranges(work, 1_000_000, backend, "features")
    assert sizes[0] == 1_000_000 and sizes[-1] == LEAST_ROWS
    assert "GiB free" in str(caught.value) and "use fewer columns" in str(caught.value)
    assert caught.value.exit_code == 3


def test_another_error_is_not_treated_as_out_of_memory(backend):
    def work(start: int, stop: int) -> None:
        raise ValueError("another")

    with pytest.raises(ValueError, match="another"):
        map_row_ranges(work, 1_000_000, backend, "features")


def test_the_errors_of_all_libraries_are_known():
    import pyarrow as pa

    with pytest.raises(MemoryError) as array:
        np.empty(1 << 50)
    words = [
        ValueError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
        RuntimeError("CUDA error: call='cudaMalloc(&p, n)', Reason=cudaErrorMemoryAllocation:out of memory"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"),
    ]
    assert all(map(is_out_of_memory, [array.value, pa.ArrowMemoryError(), *words]))
    assert not is_out_of_memory(ValueError("could not convert"))


def test_a_failed_allocation_of_a_matrix_reports_its_size(backend):
    from gpupipe.features.program.fitted import _matrix

    with pytest.raises(LimitError, match="no room for the matrix of 2,199,023,255,552 rows and 512 columns"):
        _matrix(1 << 41, 512, backend)


def test_out_of_memory_anywhere_is_exit_code_3(capsys):
    from gpupipe.cli.errors import show_error

    assert show_error(MemoryError("Unable to allocate 7.63 MiB"), debug=False) == 3
    assert "Does not fit: out of memory: Unable to allocate 7.63 MiB" in capsys.readouterr().err
