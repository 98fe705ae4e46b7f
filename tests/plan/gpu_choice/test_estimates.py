"""Estimates of a configuration, against its plan."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from gpupipe.config import parse_config
from gpupipe.plan.gpu_choice.estimates import ConfigEstimates, estimate_gpus
from gpupipe.plan.gpu_choice.gpu_rates import RATES
from gpupipe.plan.gpu_choice.gpu_specs import load_gpus
from gpupipe.plan.gpu_choice.prices import HourPrices
from gpupipe.plan.gpu_choice.roofline import roofline_seconds
from gpupipe.plan.gpu_choice.stage_times import RunTime, TimeRange, peaks_of
from gpupipe.plan.gpu_choice.work import boosting
from gpupipe.plan.run_plan import make_plan

SOURCE = {"generate": "churn", "target": "Churn", "positive": "Yes", "drop": ["customerID"]}
CHURN: dict[str, Any] = {
    "features": [{"impute": "@numeric"}, {"encode": ["@categorical", "!City"]}],
    "models": [
        "logistic_regression",
        {"xgboost": {"defaults": "library", "n_estimators": 50}},
        {"hist_gradient_boosting": {"defaults": "library", "max_iter": 20}},
        "linear_svc",
        "knn",
    ],
}
KNOWN = {**CHURN, "models": CHURN["models"][:2]}
KEYS = ("t4", "h100-sxm", "rtx-4070-laptop", "gh200")


def config_of(rows: int, settings=KNOWN):
    return parse_config({**settings, "source": {**SOURCE, "rows": rows}})


@cache
def estimates_of(rows: int) -> ConfigEstimates:
    prices = HourPrices({"h100-sxm": 3600.0}, cpu=360.0, kwh=0.5)
    return estimate_gpus(config_of(rows), load_gpus().choose(KEYS, ""), prices)


def total(time: RunTime | None) -> TimeRange:
    assert time is not None and time.total is not None
    return time.total


def by_key(found: ConfigEstimates):
    return {each.gpu.key: each for each in found.gpus}


def test_memory_is_that_of_a_plan_for_the_gpu():
    for each in estimates_of(40_000).gpus:
        plan = make_plan(config_of(40_000), assume_gpu=each.gpu.usable_bytes)
        assert each.plan.device_bytes == plan.device_bytes and not each.obstacle
        assert each.plan.device_limit == plan.device_limit == each.gpu.usable_bytes


def test_a_gpu_that_is_too_small_has_no_time():
    found = by_key(estimates_of(30_000_000))
    assert (found["rtx-4070-laptop"].obstacle, found["h100-sxm"].obstacle) == ("does not fit", "")
    assert found["rtx-4070-laptop"].time is None and found["h100-sxm"].time is not None


def test_times_costs_and_break_even_agree():
    small, large = by_key(estimates_of(40_000)), by_key(estimates_of(30_000_000))
    h100 = small["h100-sxm"]
    seconds = total(h100.time)
    assert (h100.cost.low, h100.cost.high) == pytest.approx((seconds.low, seconds.high))  # 3,600 an hour
    assert h100.watt_hours == pytest.approx(700 * seconds.high / 3600)
    t4 = small["t4"]  # no price of an hour: electricity
    assert t4.cost.high == pytest.approx(0.5 * 70 * total(t4.time).high / 3.6e6)
    cpu = {rows: total(estimates_of(rows).cpu) for rows in (40_000, 30_000_000)}
    assert h100.faster.certain and 40_000 < h100.faster.certain < 30_000_000
    assert seconds.high > cpu[40_000].low
    assert total(large["h100-sxm"].time).high < cpu[30_000_000].low


def test_a_stage_that_a_gpu_cannot_run_takes_as_long_as_on_the_cpu():
    found = estimate_gpus(config_of(40_000, CHURN), load_gpus().choose(["h100-sxm"], ""), HourPrices())
    (h100,) = found.gpus
    assert h100.time is not None
    here, there = ({stage.name: stage for stage in time.stages} for time in (found.cpu, h100.time))
    name = "train hist_gradient_boosting"
    assert there[name].device == "cpu" and here[name].seconds.high <= there[name].seconds.high
    assert there[name].seconds.high < here[name].seconds.high + 0.1  # its matrix is copied
    assert there["train xgboost"].device == "gpu"
    assert "train linear_svc" in found.cpu.unknown and h100.faster is None  # a training of unknown length
    assert found.cpu.unknown == h100.time.unknown
    assert found.cpu.total is None and h100.time.total is None and h100.watt_hours is None


def test_a_gpu_without_figures_has_no_time():
    gh200 = by_key(estimates_of(40_000))["gh200"]
    assert gh200.gpu.lacking and gh200.time is None and gh200.cost is None and not gh200.obstacle


@pytest.mark.parametrize(
    ("key", "rows", "columns", "depth", "seconds"),
    [
        ("t4", 1_000_000, 200, 6, 8.077),
        ("v100-sxm2", 10_000_000, 8, 10, 5.0),
        ("l4", 10_000_000, 8, 10, 6.0),
        ("a100-sxm-40gb", 10_000_000, 8, 10, 3.7),
        ("h100-sxm", 10_000_000, 8, 10, 3.6),
    ],
)
def test_published_times_of_xgboost_are_within_the_range(key, rows, columns, depth, seconds):
    """100 trees; the sources are those of `gpupipe.plan.gpu_choice.gpu_rates`."""
    (gpu,) = load_gpus().choose([key], "")
    work = boosting({"n_estimators": 100, "max_depth": depth}, rows, columns, 1, by_leaf=False)
    rates = RATES["xgboost"]
    low, high = (roofline_seconds(work, peaks_of(gpu), rate) for rate in (rates.fast, rates.slow))
    assert low < seconds < high < 10 * low


def test_all_figures_have_a_source_and_plausible_values():
    gpus = load_gpus().gpus
    assert len({gpu.key for gpu in gpus}) == len({gpu.name for gpu in gpus}) == len(gpus) >= 30
    for gpu in gpus:
        assert gpu.source.startswith("https://") and gpu.segment in ("data centre", "workstation", "consumer", "laptop")
        assert 4 <= gpu.memory_gb <= 300 and 2016 < gpu.year < 2030
        if gpu.bandwidth_gbs is not None and gpu.watts is not None:
            assert 1 < gpu.bandwidth_gbs / gpu.watts < 10
        precisions = [figure for figure in (gpu.fp64, gpu.fp32, gpu.tf32, gpu.fp16, gpu.fp8, gpu.fp4) if figure]
        assert precisions == sorted(precisions)  # fewer bits, more operations


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce GTX 1080", None),
    ],
)
def test_names_of_the_driver(name, key):
    found = load_gpus().named(name)
    assert (found and found.key) == key
