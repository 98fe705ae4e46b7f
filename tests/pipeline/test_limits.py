"""Runs that reach a limit or receive a stop request: where they stop, and what they report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpupipe.backends.cpu.backend import CpuBackend
from gpupipe.backends.energy import ConstantPower, EnergyMeter, RaplMeter
from gpupipe.backends.energy import EnergyUnavailable as NotMeasured
from gpupipe.backends.stage import Place
from gpupipe.config import parse_config
from gpupipe.config.limits import Limits
from gpupipe.errors import ConfigError, DeviceError, LimitError
from gpupipe.limits.budget import Budget
from gpupipe.limits.energy import RunHardware, meters_of
from gpupipe.pipeline.run import run_pipeline
from gpupipe.plan.run_plan import make_plan
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.timeline.timeline import Timeline
from tests.inline_workers import InlineWorkers

CHURN = {
    "source": {"generate": "churn", "rows": 600, "target": "Churn", "positive": "Yes", "drop": ["customerID"]},
    "features": [{"impute": "@numeric"}],
    "evaluate": {"importance": False},
    "report": {"plots": False},
}
XGBOOST = {"xgboost": {"n_estimators": 4}}
HERE = RunHardware(lambda: 0)


def churn(models: list[Any], **sections: Any) -> Any:
    return parse_config(CHURN | {"models": models} | sections)


def limits(**values: Any) -> Limits:
    return Limits.model_validate(values)


class Points(list[str]):
    """The safe points of a run, which is stopped at one of them."""

    def __init__(self, last: str = "") -> None:
        super().__init__()
        self.last = last

    def __call__(self, where: str) -> None:
        self.append(where)
        if where == self.last:
            raise LimitError(f"stopped {where}")


def run_to(last: str, config: Any, output: Path) -> Points:
    """Run until a safe point; return those it came by."""
    points, stop_signal = Points(last), StopSignal()
    stop_signal.watch(points)
    with pytest.raises(LimitError, match="stopped"):
        run_pipeline(config, output, stop_signal=stop_signal)
    return points


def test_every_stage_and_round_is_a_safe_point_and_nothing_is_left_under_the_name(tmp_path: Path) -> None:
    config = churn(["gaussian_nb", XGBOOST])
    points = run_to("after round 3", config, tmp_path / "run")
    assert points == [
        *("before read", "before split", "before features", "before train gaussian_nb"),
        *("before train xgboost", "after round 1", "after round 2", "after round 3"),
    ]
    assert not (tmp_path / "run").exists()


def test_a_stop_request_takes_effect_at_the_next_safe_point(tmp_path: Path) -> None:
    stop_signal = StopSignal()
    stop_signal.watch(lambda where: stop_signal.request(KeyboardInterrupt()) if where == "before split" else None)
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(churn(["gaussian_nb"]), tmp_path / "run", stop_signal=stop_signal)


def test_the_first_of_two_reasons_to_stop_is_the_one_that_is_raised() -> None:
    stop_signal = StopSignal()
    first = LimitError("the first")
    stop_signal.check("before anything")
    stop_signal.request(first)
    stop_signal.request(LimitError("the second"))
    with pytest.raises(LimitError) as raised:
        stop_signal.check("before read")
    assert raised.value is first


def test_a_time_limit_ends_the_run_with_the_time_used_and_a_fix(tmp_path: Path) -> None:
    with pytest.raises(LimitError) as raised:
        run_pipeline(churn(["gaussian_nb"], limits={"time": 1e-9}), tmp_path / "run")
    message = str(raised.value)
    assert "; no model is trained yet" in message
    assert "where: before read" in message
    assert "--resume" in message and "raise limits.time" in message


def test_the_message_names_the_models_that_are_done_and_the_stage_that_is_not() -> None:
    timeline = Timeline()
    for name in ("read", "train ridge", "predict ridge", *(f"fold {i}: train lasso" for i in range(1, 9))):
        with timeline.stage(name, Place("cpu")):
            pass
    budget = Budget(limits(time=1e-9), timeline)
    with timeline.stage("train mlp", Place("cpu")), pytest.raises(LimitError) as raised:
        budget.check("after epoch 3")
    assert "trained so far: ridge, fold 1: lasso, " in str(raised.value)
    assert "fold 5: lasso and 3 more" in str(raised.value)
    assert "where: train mlp, after epoch 3" in str(raised.value)


def test_resources_used_are_in_the_timeline_the_report_and_the_log(tmp_path: Path) -> None:
    section = {"time": "1h", "cost": 50, "price": {"hour": 3600, "kwh": 0.3}, "power": {"cpu": 150}}
    run = run_pipeline(churn(["gaussian_nb"], limits=section), tmp_path / "run")
    timeline = json.loads((run.path / "timeline.json").read_text())
    used = {record["name"]: record for record in timeline["limits"]}
    assert list(used) == ["time", "energy", "cost"]
    assert used["time"]["allowed"] == 3600 and used["energy"]["allowed"] is None
    assert used["time"]["used"] == pytest.approx(timeline["seconds"], abs=0.05)
    assert used["energy"]["how"] in ("cpu: 150 W given", "cpu: RAPL")
    if used["energy"]["how"] == "cpu: 150 W given":
        assert used["energy"]["used"] == pytest.approx(150 * used["time"]["used"] / 3.6e6, rel=0.05)
    assert used["cost"]["used"] == pytest.approx(used["time"]["used"] + 0.3 * used["energy"]["used"], rel=1e-6)
    assert used["cost"]["how"] == "3600 per hour, 0.3 per kWh"
    report = (run.path / "report.html").read_text()
    assert "Limits and costs" in report and "3600 per hour, 0.3 per kWh" in report
    (said,) = [note.text for note in run.timeline.notes if note.text.startswith("used: ")]
    assert "of 1 h 00 min" in said
    assert run.timeline.to_json()["limits"] == run.timeline.to_json()["limits"]  # nothing runs after the end


def test_a_run_without_limits_does_not_mention_them(churn_run: Any) -> None:
    assert json.loads((churn_run.path / "timeline.json").read_text())["limits"] == []
    assert "Limits and costs" not in (churn_run.path / "report.html").read_text()


def test_gpu_time_counts_until_the_run_releases_them() -> None:
    timeline, held = Timeline(), [3]
    budget = Budget(limits(gpu_hours=1, cost=1, price={"gpu_hour": 2}), timeline, lambda: held[0])
    before = timeline.seconds
    hours, cost = (use.used for use in budget.uses())
    assert 3 * before <= hours * 3600 <= 3 * timeline.seconds
    assert cost == pytest.approx(2 * hours)
    held[0] = 0  # all workers were lost
    assert budget.uses()[0].used == hours
    held[0] = 1
    assert hours < budget.uses()[0].used < hours + timeline.seconds / 3600


def test_energy_that_cannot_be_measured_is_refused_unless_watts_are_given(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr("gpupipe.limits.energy.RaplMeter", lambda: RaplMeter(tmp_path))
    with pytest.raises(ConfigError, match=r"cannot measure the energy of the CPU: .*\n.*limits\.energy\n.*power:"):
        meters_of(limits(energy=1), HERE)
    with pytest.raises(ConfigError, match=r"limits\.price\.kwh"):
        meters_of(limits(price={"kwh": 0.3}), HERE)
    with pytest.raises(ConfigError, match=r"limits\.energy"):
        run_pipeline(churn(["gaussian_nb"], limits={"energy": 1}), tmp_path / "run")
    assert [(whose, meter.how) for whose, meter in meters_of(limits(energy=1, power={"cpu": 150}), HERE)] == [
        ("cpu", "150 W given")
    ]
    assert meters_of(limits(time=1), HERE) == []


def test_workers_of_other_machines_have_no_meter_and_count_each(monkeypatch: Any) -> None:
    cluster = RunHardware(lambda: 4, n_machines=2, are_elsewhere=True)
    with pytest.raises(ConfigError, match="the energy of the GPU: the run computes on other machines"):
        meters_of(limits(energy=1, power={"cpu": 150}), cluster)
    given = meters_of(limits(energy=1, power={"cpu": 150, "gpu": 700}), cluster)
    assert [meter.how for _, meter in given] == ["300 W given", "2800 W given"]


def test_what_a_run_computes_on_is_this_machine_its_cluster_or_all_that_torchrun_started(monkeypatch: Any) -> None:
    backend = CpuBackend()
    workers = InlineWorkers(backend, 3)
    local = RunHardware.of(churn(["gaussian_nb"], cluster={"scheduler": "local"}), backend, workers, 1)
    assert (local.n_gpus(), local.n_machines, local.are_elsewhere) == (0, 1, False)
    far = RunHardware.of(churn(["gaussian_nb"], cluster={"scheduler": "tcp://host:8786"}), backend, workers, 1)
    assert far.are_elsewhere
    workers.device = "gpu"
    assert local.n_gpus() == far.n_gpus() == 3
    for name, value in {
        "RANK": 0,
        "WORLD_SIZE": 4,
        "LOCAL_WORLD_SIZE": 2,
        "MASTER_ADDR": "a",
        "MASTER_PORT": 1,
    }.items():
        monkeypatch.setenv(name, str(value))
    launched = RunHardware.of(churn(["gaussian_nb"]), backend, None, 1)
    assert (launched.n_gpus(), launched.n_machines, launched.are_elsewhere) == (0, 2, True)


def test_a_plan_names_the_limits_and_refuses_the_same_as_a_run(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr("gpupipe.limits.energy.RaplMeter", lambda: RaplMeter(tmp_path))
    section = {"time": "2h", "energy": 1, "power": {"cpu": 150}}
    assert make_plan(churn(["gaussian_nb"], limits=section)).to_json()["limits"] == {"time": 7200, "energy": 1}
    with pytest.raises(ConfigError, match=r"limits\.energy"):
        make_plan(churn(["gaussian_nb"], limits={"energy": 1}))


def test_a_meter_that_fails_in_the_run_ends_it() -> None:
    class Broken(EnergyMeter):
        how, is_polled = "RAPL", True

        def joules(self) -> float:
            raise NotMeasured("energy_uj cannot be read: No such device")

    with (
        Budget(limits(energy=1), Timeline(), meters=[("cpu", Broken())]) as budget,
        pytest.raises(DeviceError, match="the energy meter stopped working: energy_uj cannot be read"),
    ):
        budget.check("before split")


def test_energy_that_is_used_up_stops_the_run() -> None:
    with (
        Budget(limits(energy=1e-6), Timeline(), meters=[("cpu", ConstantPower(1e12))]) as budget,
        pytest.raises(LimitError, match=r"limits\.energy is reached: used .* of 1e-06 kWh"),
    ):
        budget.check("before split")
