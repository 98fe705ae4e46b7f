"""A device with too little memory: rows in batches, or exit code 3, never a different result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gpupipe.backends.gpu.backend import GpuBackend
from gpupipe.backends.gpu.memory import RmmMemory
from gpupipe.datasets.churn import customers

ROWS = 400_000
CONFIG = Path(__file__).parents[2] / "configs" / "bench_churn.yaml"
MODELS = "[{xgboost: {n_estimators: 20}}]"
OF_XGBOOST = ("train ", "predict ", "explain")  # stages in which it allocates
LIMITS = ("2GiB", "600MiB", "400MiB", "250MiB", "150MiB", "16MiB")  # the matrix alone is 91 MB


@pytest.fixture(scope="module")
def attempts(command: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Path]]:
    """The outcome of the same run under each limit."""
    folder = tmp_path_factory.mktemp("memory")
    pq.write_table(customers(ROWS), folder / "churn.parquet")
    found = {}
    for limit in LIMITS:
        out = folder / limit
        found[limit] = (
            command(
                "run", str(CONFIG), "--device", "gpu", "--set", f"gpu.limit={limit}", "--set", f"models={MODELS}",
                "--set", "fallback=allow",  # without cuDF, the file is read on the host
                "--output", str(out), CHURN_FILE=str(folder / "churn.parquet"),
            ),
            out,
        )  # fmt: skip
    return found


def test_a_sufficient_limit_succeeds_and_a_small_one_is_exit_code_3(attempts: dict[str, tuple[Any, Path]]) -> None:
    assert attempts[LIMITS[0]][0].code == 0, attempts[LIMITS[0]][0].said
    assert attempts[LIMITS[-1]][0].code == 3, attempts[LIMITS[-1]][0].said


def test_it_either_fits_or_reports_that_it_does_not(attempts: dict[str, tuple[Any, Path]]) -> None:
    for limit, (done, out) in attempts.items():
        assert done.code in (0, 3), f"{limit}: {done.said}"
        if done.code == 3:
            assert "Does not fit" in done.said
            assert not out.exists()


def test_the_answer_does_not_depend_on_the_limit(attempts: dict[str, tuple[Any, Path]]) -> None:
    metrics = [json.loads((out / "metrics.json").read_text()) for done, out in attempts.values() if done.code == 0]
    assert all(one == metrics[0] for one in metrics)


def test_no_stage_held_more_than_the_limit(attempts: dict[str, tuple[Any, Path]], stages: Any) -> None:
    for limit, (done, out) in attempts.items():
        if done.code == 0:
            number, unit = int(limit[:-3]), {"MiB": 1 << 20, "GiB": 1 << 30}[limit[-3:]]
            # XGBoost does not know the limit: without RMM its share of the pool is counted, too
            ours = [stage for stage in stages(out) if not any(word in stage["name"] for word in OF_XGBOOST)]
            assert max(stage["peak_device_bytes"] for stage in ours) <= number * unit
            assert {stage["device"] for stage in stages(out) if "train " in stage["name"]} == {"gpu"}


def test_freed_memory_counts_as_free() -> None:
    backend = GpuBackend("a test")
    array = backend.xp.zeros(1 << 30, dtype="uint8")
    backend.synchronize()
    held = backend.free_bytes()
    del array
    backend.synchronize()
    assert backend.free_bytes() >= held + (1 << 29)


def test_xgboost_allocates_from_the_pool() -> None:
    from cupy.cuda import runtime

    backend = GpuBackend("a test")
    model = backend.estimator("XGBRegressor", {"n_estimators": 2})
    random: Any = backend.xp.random
    X = random.rand(100_000, 20).astype("float32")
    backend.synchronize()
    pool = runtime.deviceGetDefaultMemPool(runtime.getDevice())
    runtime.memPoolSetAttribute(pool, runtime.cudaMemPoolAttrUsedMemHigh, 0)
    before = runtime.memPoolGetAttribute(pool, runtime.cudaMemPoolAttrUsedMemCurrent)
    backend.open_stage()
    model.fit(X, X[:, 0])
    backend.synchronize()
    used = runtime.memPoolGetAttribute(pool, runtime.cudaMemPoolAttrUsedMemHigh)
    reported = backend.close_stage().peak_bytes or 0
    assert used > before  # the quantised matrix and the histograms
    assert (
        reported < used if isinstance(backend.device_memory, RmmMemory) else reported == used
    )  # RMM does not see them
