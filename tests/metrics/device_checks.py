"""Checks of metrics on the device double, run by `tests/pipeline/test_on_device.py` in Numba's simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import (
    METRICS,
    choose_threshold,
    confusion,
    curves,
    evaluate,
    fit_calibration,
    quantile_losses,
    residuals,
)
from tests.backends.double import DeviceArray, DeviceDouble, uncounted

N = 3_000
LEVELS = (0.1, 0.5, 0.9)
FIGURES = 20_000  # bytes: some numbers, and curves of 200 points; a column of the rows has 24,000


def _names(task: str) -> list[str]:
    return [name for name, metric in METRICS.items() if task in metric.tasks and name != "cost"]


def _rows(task: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    if task == "regression":
        y: np.ndarray = rng.normal(size=N)
        return y, y + rng.normal(size=N)
    if task == "quantile":
        y = rng.normal(size=N)
        return y, np.sort(y[:, None] + rng.normal(size=(N, 3)), axis=1)
    y = rng.integers(0, 2 if task == "binary" else 4, N)
    if task == "binary":
        return y.astype(float), 1 / (1 + np.exp(-(rng.normal(size=N) + y)))
    odds = rng.random((N, 4)) + (y[:, None] == np.arange(4))
    return y.astype(float), (odds / odds.sum(axis=1, keepdims=True)).astype(np.float32)


def _threshold(y: Any, guess: Any, backend: Any) -> float:
    return choose_threshold(y, guess, "best_f1", backend=backend)


WORK: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
    "binary": ("binary", lambda y, g, b: evaluate("binary", y, g, _names("binary"), 0.4, backend=b)),
    "multiclass": ("multiclass", lambda y, g, b: evaluate("multiclass", y, g, _names("multiclass"), 0.5, 4, backend=b)),
    "regression": ("regression", lambda y, g, b: evaluate("regression", y, g, _names("regression"), backend=b)),
    "quantile": (
        "quantile",
        lambda y, g, b: evaluate("quantile", y, g, _names("quantile"), quantiles=LEVELS, backend=b),
    ),
    "losses": ("quantile", lambda y, g, b: quantile_losses(y, g, LEVELS, backend=b)),
    "threshold": ("binary", _threshold),
    "confusion": ("multiclass", lambda y, g, b: confusion("multiclass", y, g, 0.5, 4, backend=b)),
    "curves": ("binary", lambda y, g, b: curves("binary", y, g, backend=b)),
    "residuals": ("regression", lambda y, g, b: residuals(y, g, sample=100, backend=b)),
}


@pytest.mark.parametrize("what", WORK)
def test_metrics_on_the_device_match_the_host_and_only_results_leave_it(what: str) -> None:
    task, work = WORK[what]
    y, guess = _rows(task)
    device = DeviceDouble()
    there = device.to_device(guess)
    uncounted.clear()
    device.open_stage()
    found = work(device.to_device(y), there, device)
    assert device.close_stage().bytes_to_host < FIGURES
    assert uncounted == []
    assert found == work(y, guess, CpuBackend())


def test_host_arrays_are_moved_once() -> None:
    y, guess = _rows("binary")
    device = DeviceDouble()
    device.open_stage()
    evaluate("binary", y, guess, _names("binary"), backend=device)
    assert device.close_stage().bytes_to_device == y.nbytes + guess.nbytes


@pytest.mark.parametrize("how", ["sigmoid", "isotonic"])
def test_a_calibration_is_applied_on_the_device_of_the_probabilities(how: Any) -> None:
    y, guess = _rows("binary")
    device, calibration = DeviceDouble(), fit_calibration(guess, y, how)
    found = calibration.apply(device.to_device(guess), device)
    assert isinstance(found, DeviceArray)
    np.testing.assert_array_equal(device.to_host(found), calibration.apply(guess))
