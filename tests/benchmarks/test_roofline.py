"""The benchmark of predicted times."""

from __future__ import annotations

import json

import pytest

from benchmarks import roofline
from gpupipe.plan.gpu_choice.roofline import Peaks, Rate, roofline_seconds
from gpupipe.plan.gpu_choice.work import Work

CORE = Peaks(1e10, 5e10, 2e10, 5e10)


def test_a_fit_finds_the_rates_that_times_were_made_from(capsys):
    rate = Rate(0.25, 1.0, step=0.002, start=0.1)
    works = [Work(n_bytes=n * 1e8, n_steps=steps) for n in (1, 7, 40, 300) for steps in (1, 50, 400)]
    found = [("run", "train", "xgboost", work, roofline_seconds(work, CORE, rate)) for work in works]
    roofline.print_rates(found, CORE)
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == "| xgboost | 12 | 0.100 | 0.002 | 0.25 | bandwidth | 0% |"


def test_measurements_are_kept_and_the_folds_of_a_stage_are_added(tmp_path, monkeypatch, capsys):
    (tmp_path / "c.yaml").write_text(
        "source: {generate: churn, rows: 600, target: Churn, drop: [customerID]}\n"
        "split: {cv: 5}\nmodels: [logistic_regression]\n"
    )
    run: roofline.Run = (str(tmp_path / "c.yaml"), [], {})
    names = [f"fold {i} of 5: train logistic_regression" for i in range(1, 6)]
    monkeypatch.setattr(roofline, "measure", lambda run: dict.fromkeys([*names, "explain"], 0.5))
    records = roofline.Records(tmp_path / "records.jsonl")
    measured = records.measure("telco", run)
    monkeypatch.delattr(roofline, "measure")
    assert roofline.Records(tmp_path / "records.jsonl").measure("telco", run) == measured
    assert len(list(map(json.loads, (tmp_path / "records.jsonl").read_text().splitlines()))) == 2
    ((name, kind, work, seconds),) = roofline.stages_of(run, measured)
    assert (name, kind) == ("train logistic_regression", "logistic") and seconds == pytest.approx(2.5)
    roofline.print_table([("telco", name, kind, work, seconds)], records.core)
    assert "| telco | train logistic_regression | 2.500 |" in capsys.readouterr().out
