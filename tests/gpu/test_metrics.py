"""Metrics, thresholds and curves of predictions on the device, compared with scikit-learn and the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as sk

from gpupipe.backends import choose
from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.metrics import METRICS, choose_threshold, confusion, curves, evaluate, residuals

N = 200_000


@pytest.fixture(scope="module")
def device() -> Any:
    return choose("gpu")


def _rows(task: str) -> tuple[Any, Any]:
    """Return truth and prediction; one probability in two has many equals."""
    rng = np.random.default_rng(0)
    if task == "regression":
        y: np.ndarray = rng.normal(size=N)
        return y, y + rng.normal(size=N)
    if task == "quantile":
        y = rng.normal(size=N)
        return y, np.sort(y[:, None] + rng.normal(size=(N, 3)), axis=1)
    y = rng.integers(0, 2 if task == "binary" else 4, N)
    if task == "binary":
        p = 1 / (1 + np.exp(-(rng.normal(size=N) + y)))
        return y.astype(float), np.where(rng.random(N) < 0.5, p, p.round(2))
    odds = rng.random((N, 4)) + (y[:, None] == np.arange(4))
    return y.astype(float), odds / odds.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("task", "n_classes"), [("binary", 2), ("multiclass", 4), ("regression", 0), ("quantile", 0)])
def test_metrics_match_the_host_to_the_last_digits(task: str, n_classes: int, device: Any) -> None:
    y, guess = _rows(task)
    names = [name for name, metric in METRICS.items() if task in metric.tasks and name != "cost"]
    levels = (0.1, 0.5, 0.9) if task == "quantile" else ()
    found = evaluate(task, y, device.to_device(guess), names, 0.4, n_classes, quantiles=levels, backend=device)
    expected = evaluate(task, y, guess, names, 0.4, n_classes, quantiles=levels, backend=CpuBackend())
    assert found == pytest.approx(expected, rel=1e-12)


def test_metrics_match_scikit_learn(device: Any) -> None:
    y, guess = _rows("binary")
    p, names = guess, ["roc_auc", "average_precision", "log_loss", "f1"]
    assert evaluate("binary", y, device.to_device(guess), names, backend=device) == pytest.approx(
        {
            "roc_auc": sk.roc_auc_score(y, p),
            "average_precision": sk.average_precision_score(y, p),
            "log_loss": sk.log_loss(y, p),
            "f1": sk.f1_score(y, p >= 0.5),
        },
        rel=1e-12,
    )


@pytest.mark.parametrize("how", ["best_f1", "best_accuracy", "best_balanced_accuracy", "youden"])
def test_a_threshold_matches_the_host(how: str, device: Any) -> None:
    y, guess = _rows("binary")
    found = choose_threshold(y, device.to_device(guess), how, backend=device)
    assert found == choose_threshold(y, guess, how, backend=CpuBackend())


def test_curves_match_the_host(device: Any) -> None:
    y, guess = _rows("binary")
    there, host = device.to_device(guess), CpuBackend()
    assert confusion("binary", y, there, backend=device) == confusion("binary", y, guess, backend=host)
    found, expected = (curves("binary", y, g, backend=b) for g, b in ((there, device), (guess, host)))
    assert sk.auc(found.roc[0].x, found.roc[0].y) == pytest.approx(sk.auc(expected.roc[0].x, expected.roc[0].y), 1e-4)
    assert found.calibration[0].x == pytest.approx(expected.calibration[0].x, rel=1e-9)
    assert found.calibration[0].y == pytest.approx(expected.calibration[0].y, rel=1e-9)
    y, guess = _rows("regression")
    off, reference = (residuals(y, g, backend=b) for g, b in ((device.to_device(guess), device), (guess, host)))
    assert off.quantiles == pytest.approx(reference.quantiles, rel=1e-9)
    assert sum(off.counts) == N


def test_only_figures_leave_the_device(device: Any) -> None:
    y, guess = _rows("binary")
    there, names = (
        device.to_device(guess),
        [name for name, metric in METRICS.items() if "binary" in metric.tasks and name != "cost"],
    )
    y = device.to_device(y)
    device.open_stage()
    evaluate("binary", y, there, names, backend=device)
    curves("binary", y, there, backend=device)
    use = device.close_stage()
    assert (use.bytes_to_host < 20_000, use.bytes_to_device < 10_000) == (True, True)
