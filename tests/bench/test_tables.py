"""The result document as text."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

from gpupipe.bench.figures import EXTRAS, PROCESS, STAGES
from gpupipe.bench.tables import show


def runner(unit: float, ratio: float) -> dict[str, Any]:
    seconds = {label: unit for label in (*STAGES, PROCESS)}
    return {
        "seconds": seconds,
        "cpu_seconds": {label: unit / 2 for label in seconds},
        "peak_rss_mib": 1234.0,
        "quality": 0.8125,
        "ratio": {label: ratio for label in seconds} | {"peak_rss_mib": ratio},
        "runs": [],
    }


@pytest.fixture
def document() -> dict[str, Any]:
    extras = {label: 0.5 for label in EXTRAS}
    table = {
        "data": "churn.parquet",
        "model": "logistic_regression",
        "rows": 1_000_000,
        "features": 57,
        "metric": "roc_auc",
        "runners": {"gpupipe": runner(1.0, 1.0), "peer_[red]": runner(2.5, 2.5)},
        "extras": {"seconds": extras, "cpu_seconds": extras, "peers": {}, "notes": [], "runs": []},
    }
    return {
        "started": "2026-01-01T00:00:00+00:00",
        "gpupipe": "0.1.0",
        "config": "configs/bench_churn.yaml",
        "repeat": 3,
        "baseline": "gpupipe",
        "folds": 1,
        "device": {"name": "cpu", "reason": "no NVIDIA driver", "gpu": "not measured: no NVIDIA driver"},
        "machine": {
            "cpu": "Abacus",
            "threads": 2,
            "memory_gib": 4.0,
            "python": "3.12",
            "libraries": {"numpy": "2.4"},
            "load_average": [0.1, 0.1, 0.1],
        },
        "tables": [table],
    }


def shown(document: dict[str, Any]) -> str:
    out = io.StringIO()
    show(document, out)
    return out.getvalue()


def row(text: str, label: str) -> list[str]:
    """Return the cells of the first line whose first cell is `label`."""
    lines = ([cell.strip() for cell in line.split("|")] for line in text.splitlines())
    return next(cells[1:] for cells in lines if cells[0] == label)


def test_wall_seconds_cpu_seconds_and_ratio_are_columns(document: dict[str, Any]) -> None:
    text = shown(document)
    assert row(text, "stage") == ["gpupipe", "peer_[red]", "ratio"]
    for label in (*STAGES, PROCESS):
        assert row(text, label) == ["1.000 (0.500)", "2.500 (1.250)", "2.50x"]
    assert row(text, "peak RSS, MiB") == ["1,234", "1,234", "2.50x"]
    assert row(text, "roc_auc") == ["0.81250", "0.81250", "-"]


def test_the_reason_that_no_gpu_was_measured_is_shown(document: dict[str, Any]) -> None:
    assert "GPU: not measured: no NVIDIA driver. All results below are from the CPU." in shown(document).splitlines()


def test_it_is_plain_ascii_and_lines_are_not_cut(document: dict[str, Any]) -> None:
    document["tables"][0]["runners"] |= {f"peer_{i}": runner(12345.678, 12345.678) for i in range(4)}
    text = shown(document)
    assert text.isascii()
    assert row(text, "read")[2:] == ["2.50x", *["12,345.678 (6,172.839)", "12345.68x"] * 4]


def test_a_stage_without_values_has_no_row(document: dict[str, Any]) -> None:
    for each in document["tables"][0]["runners"].values():
        each["seconds"]["train"] = None
        each["quality"] = None
    text = shown(document)
    assert "\ntrain " not in text
    assert "\nroc_auc " not in text


def test_a_stage_that_one_side_skipped_is_a_dash(document: dict[str, Any]) -> None:
    document["tables"][0]["runners"]["peer_[red]"]["seconds"]["features fit"] = None
    document["tables"][0]["runners"]["peer_[red]"]["ratio"]["features fit"] = None
    text = shown(document)
    assert row(text, "features fit") == ["1.000 (0.500)", "-", "-"]
    assert "fits and transforms in one call" in text


def test_a_busy_machine_is_reported(document: dict[str, Any]) -> None:
    assert "busy" not in shown(document)
    document["machine"]["load_average"] = [3.5, 1.0, 1.0]
    assert "the machine was busy" in shown(document)


def test_warm_figures_are_labelled(document: dict[str, Any]) -> None:
    document["baseline"] = "gpupipe, steady"
    warm = runner(0.5, 1.0)
    document["tables"][0]["runners"] = {"gpupipe, steady": warm, **document["tables"][0]["runners"]}
    text = shown(document)
    assert row(text, "stage")[0] == "gpupipe, steady"
    assert "repeated in one process after a warm-up" in text


def test_of_the_extra_stages_only_serving_is_compared(document: dict[str, Any]) -> None:
    document["tables"][0]["extras"]["peers"] = {"peer": {"seconds": 2.0, "cpu_seconds": 1.5}}
    text = shown(document)
    assert row(text, "serve: transform of all rows") == ["0.500 (0.500)", "2.00", "2.000 (1.500)", "4.00x"]
    assert row(text, "read (encoded cache): later runs, map only") == ["0.500 (0.500)", "2.00", "-", "-"]


def test_break_even_is_shown_for_each_peer(document: dict[str, Any]) -> None:
    small = copy.deepcopy(document["tables"][0])
    small["rows"] = 1000
    document["tables"] = [small, document["tables"][0]]
    document["break_even_rows"] = {"peer_[red]": 1_000_000}
    text = shown(document)
    assert row(text, "1,000") == row(text, "1,000,000") == ["1.000 (0.500)", "2.500 (1.250)", "2.50x"]
    assert "the whole gpupipe process is faster than peer_[red] from 1,000,000 rows" in text
    document["break_even_rows"] = {"peer_[red]": None}
    assert "not faster than peer_[red] at the largest size" in shown(document)
