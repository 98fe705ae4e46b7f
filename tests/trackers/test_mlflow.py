"""Runs logged to a real MLflow server with SQLite, read back through its REST interface."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpupipe.children import child_environment
from gpupipe.cli import main
from gpupipe.config import parse_config
from gpupipe.errors import ConfigError, LimitError
from gpupipe.pipeline.records.rundir import find_foreign
from gpupipe.pipeline.result import Run, load_run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.display.console import Console
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.timeline.timeline import Note, Stage
from tests.trackers.conftest import MlflowServer, await_true

PASSWORD = "hunter2-hunter2"
SMALL: dict[str, Any] = {
    "source": {"generate": "churn", "rows": 600, "target": "Churn", "positive": "Yes", "drop": ["customerID", "City"]},
    "features": [{"impute": "@numeric"}, {"encode": "@categorical"}],
    "models": ["gaussian_nb"],
    "evaluate": {"metrics": ["roc_auc", "log_loss"], "importance": False},
    "report": {"enabled": False},
}
TWO_MODELS = [
    "gaussian_nb",
    {"logistic_regression": {"max_iter": 200}, "tune": {"trials": 2, "folds": 2, "space": {"C": [0.01, 1.0]}}},
]


def small(uri: str, experiment: str, timeout: float = 60.0, **changes: Any) -> Any:
    track = {"mlflow": uri, "experiment": experiment, "timeout": timeout}
    return parse_config({"name": "small", **SMALL, "track": track, **changes})


class AtStage:
    """Listener that runs a function when the named stage starts."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self.name, self.act = name, act

    def started(self, stage: Stage) -> None:
        if stage.name == self.name:
            self.act()

    def noted(self, note: Note) -> None: ...

    def ended(self, stage: Stage) -> None: ...


@pytest.fixture(scope="module")
def tracked(server: MlflowServer, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with folds and trials, logged to a server whose URI has a password."""
    uri = server.uri.replace("//", f"//me:{PASSWORD}@")
    changes: dict[str, Any] = {
        "models": TWO_MODELS,
        "split": {"cv": 2},
        "report": {"plots": False},
        "monitor": {"period": 0.1},
    }
    folder = tmp_path_factory.mktemp("tracked")
    return run_pipeline(small(uri, "folds", **changes), folder / "churn")


def test_the_run_and_its_url_are_recorded(tracked: Run, server: MlflowServer) -> None:
    (record,) = load_run(tracked.path).tracked
    assert (record["tracker"], record["complete"], record["problem"]) == ("mlflow", True, None)
    assert record["url"].startswith(f"{server.uri}/#/experiments/")
    assert record["url"].endswith(record["id"])
    assert server.runs("folds")["churn"].id == record["id"]
    assert tracked.tracked == [record]


def test_the_server_has_configuration_metrics_stages_and_data(tracked: Run, server: MlflowServer) -> None:
    stored = server.runs("folds")["churn"]
    assert stored.status == "FINISHED"
    assert stored.params["split.cv"] == "2"
    assert json.loads(stored.params["features.0.impute"])["columns"] == "@numeric"
    assert stored.params["models.logistic_regression.max_iter"] == "200"
    assert stored.tags["gpupipe/best"] == tracked.candidates[0].label
    metrics = {name: value for name, value in stored.metrics.items() if name in tracked.metrics}
    assert metrics == pytest.approx(tracked.metrics)
    stages = {stage.name.replace(": ", "/"): stage for stage in tracked.timeline.stages}
    logged = {name.split("/", 1)[1].rsplit("/", 1)[0] for name in stored.metrics if name.startswith("stage/")}
    assert logged == set(stages)
    assert stored.metrics["stage/read/rows"] == 600
    assert stored.metrics["system/process_memory_bytes"] > 0
    (dataset,) = stored.datasets
    assert json.loads(dataset["profile"])["num_rows"] == 600
    assert {"name": "tenure", "type": "double"} in json.loads(dataset["schema"])["mlflow_colspec"]


def test_folds_and_trials_are_nested_runs(tracked: Run, server: MlflowServer) -> None:
    runs = server.runs("folds")
    for entry in tracked.candidates:
        candidate = runs[entry.label]
        assert (candidate.parent, candidate.status) == (runs["churn"].id, "FINISHED")
        folds = [runs[f"{entry.label}: fold {i} of 2"] for i in (1, 2)]
        assert {fold.parent for fold in folds} == {candidate.id}
        for name in ("roc_auc", "log_loss"):
            values = [fold.metrics[name] for fold in folds]
            assert (np.mean(values), np.std(values)) == pytest.approx(
                (entry.metrics[name], entry.metrics[f"{name}_std"])
            )
    label = "logistic_regression"
    trials = {name: run for name, run in runs.items() if ": trial " in name}
    of_folds = [f"{label}: fold {i} of 2: trial {k}" for i in (1, 2) for k in (1, 2)]
    again = [name for name in trials if name not in of_folds]
    assert sorted(trials) == sorted([*of_folds, *again])
    for name in of_folds:
        assert trials[name].parent == runs[name.rpartition(": ")[0]].id
    search = next(entry.search for entry in tracked.candidates if entry.label == label)
    last = again or of_folds[2:]  # the search of the exported model, or that of the last fold
    assert search is not None
    assert [float(trials[name].params["C"]) for name in sorted(last)] == [each.params["C"] for each in search.tried]
    scores = [trials[name].metrics["roc_auc"] for name in sorted(last)]
    assert scores == pytest.approx([each.score for each in search.tried])


def test_the_artifacts_are_the_files_of_the_run(tracked: Run, server: MlflowServer) -> None:
    (root,) = server.folder.glob(f"artifacts/*/{server.runs('folds')['churn'].id}/artifacts")
    uploaded = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    model = {path.relative_to(tracked.path).as_posix() for path in tracked.path.glob("model/*")}
    assert set(uploaded) == model | {"config.yaml", "metrics.json", "timeline.json", "report.html", "tuned.yaml"}
    for name in uploaded.keys() - {"timeline.json"}:
        assert uploaded[name].read_bytes() == (tracked.path / name).read_bytes(), name


def test_a_password_reaches_neither_server_nor_run_directory(tracked: Run, server: MlflowServer) -> None:
    files = [path for folder in (server.folder, tracked.path) for path in folder.rglob("*") if path.is_file()]
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
    assert "://***@127" in (tracked.path / "config.yaml").read_text()


def test_a_server_that_hangs_costs_one_warning(serve_mlflow: Callable[..., MlflowServer], tmp_path: Path) -> None:
    server = serve_mlflow()

    def act() -> None:
        await_true(lambda: has_run(server, "hangs", "run"), "the tracked run")
        server.signal(signal.SIGSTOP)

    run = run_pipeline(small(server.uri, "hangs", 6.0), tmp_path / "run", [AtStage("features", act)])
    server.signal(signal.SIGKILL)  # while it hangs, it may hold the lock of the store that all servers share
    (warning,) = run.timeline.all_notes("warning")
    assert [(record["complete"], record["problem"]) for record in run.tracked] == [(False, warning.text)]
    assert load_run(run.path).tracked == run.tracked
    assert find_foreign(run.path) == ("", "")


def test_a_server_that_is_killed_costs_one_warning_and_keeps_the_exit_code(
    serve_mlflow: Callable[..., MlflowServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    server, shown = serve_mlflow(), Console.started
    uri = server.uri.replace("//", f"//me:{PASSWORD}@")

    def started(console: Console, stage: Stage) -> None:
        shown(console, stage)
        if stage.name == "features":
            await_true(lambda: has_run(server, "killed", "run"), "the tracked run")
            server.signal(signal.SIGKILL)

    monkeypatch.setattr(Console, "started", started)
    (tmp_path / "c.yaml").write_text(json.dumps({**SMALL, "track": {"mlflow": uri, "experiment": "killed"}}))
    assert main(["run", str(tmp_path / "c.yaml"), "--output", str(tmp_path / "run")]) == 0
    output = "".join(capfd.readouterr())
    (record,) = load_run(tmp_path / "run").tracked
    assert not record["complete"]
    assert output.count(record["problem"]) == 1
    assert PASSWORD not in output
    assert find_foreign(tmp_path / "run") == ("", "")


def test_a_server_that_comes_back_gets_what_it_missed(
    serve_mlflow: Callable[..., MlflowServer], tmp_path: Path
) -> None:
    server = serve_mlflow()

    def kill() -> None:
        await_true(lambda: has_run(server, "back", "run"), "the tracked run")
        server.signal(signal.SIGKILL)

    def start_again() -> None:
        serve_mlflow(server.port)

    listeners = [AtStage("features", kill), AtStage("export", start_again)]
    run = run_pipeline(small(server.uri, "back"), tmp_path / "run", listeners)
    assert [record["complete"] for record in run.tracked] == [True]
    stored = server.runs("back")["run"]
    assert stored.status == "FINISHED"
    assert {f"stage/{stage.name}/seconds" for stage in run.timeline.stages} <= set(stored.metrics)


def test_a_stopped_run_is_killed_and_resumed_as_the_same_run(server: MlflowServer, tmp_path: Path) -> None:
    stop_signal = StopSignal()

    def watch(where: str) -> None:
        if where == "before explain":
            raise LimitError("time is up")

    stop_signal.watch(watch)
    config = small(server.uri, "resumed", models=TWO_MODELS)
    with pytest.raises(LimitError):
        run_pipeline(config, tmp_path / "run", stop_signal=stop_signal)
    stopped = server.runs("resumed")
    assert {run.status for run in stopped.values() if ": trial" not in run.name} == {"KILLED"}
    assert "time is up" in stopped["run"].tags["gpupipe/error"]
    run_pipeline(config, tmp_path / "run", resume=True)
    resumed = server.runs("resumed")
    assert {name: run.id for name, run in resumed.items()} == {name: run.id for name, run in stopped.items()}
    assert {run.status for run in resumed.values()} == {"FINISHED"}
    assert list(tmp_path.glob(".checkpoints/*.tracked")) == []


def test_a_run_that_is_killed_by_the_system_does_not_stay_running(server: MlflowServer, tmp_path: Path) -> None:
    hook = "def wait(frame):\n    import threading\n    threading.Event().wait()\n"
    (tmp_path / "hook.py").write_text(hook)
    source = {**SMALL["source"], "prepare": str(tmp_path / "hook.py:wait")}
    config = {"name": "lost", **SMALL, "source": source, "track": {"mlflow": server.uri, "experiment": "lost"}}
    (tmp_path / "c.yaml").write_text(json.dumps(config))
    command = [sys.executable, "-m", "gpupipe", "run", str(tmp_path / "c.yaml"), "--output", str(tmp_path / "run")]
    with subprocess.Popen(command, env=child_environment(), stderr=subprocess.DEVNULL) as process:
        await_true(lambda: has_run(server, "lost", "run"), "the tracked run")
        process.kill()
    await_true(lambda: server.runs("lost")["run"].status == "KILLED", "the end of the tracked run")


def test_an_absent_library_is_a_warning_of_the_check_and_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = ModuleSpec("wandb", None, is_package=True)  # its runs are in a folder that could be a package
    for found in (None, folder):
        monkeypatch.setattr("gpupipe.config.trackers.find_spec", {"wandb": found}.get)
        (tmp_path / "c.yaml").write_text(json.dumps({**SMALL, "track": {"wandb": "demo"}}))
        assert main(["check", str(tmp_path / "c.yaml"), "--no-data"]) == 0
        (warning,) = [line for line in capfd.readouterr().out.splitlines() if "warning" in line]
        assert "gpupipe[wandb]" in warning
    run = run_pipeline(parse_config({**SMALL, "track": {"wandb": "demo"}}), tmp_path / "run")
    (note,) = run.timeline.all_notes("warning")
    assert warning.endswith(note.text)
    assert run.tracked == [{"tracker": "wandb", "complete": False, "problem": note.text}]


@pytest.mark.parametrize("uri", ["localhost:5000", "mlruns", ""])
def test_a_setting_that_is_not_a_uri_is_refused(uri: str) -> None:
    with pytest.raises(ConfigError) as error:
        small(uri, "none")
    assert "track.mlflow" in error.value.problems[0]


def has_run(server: MlflowServer, experiment: str, name: str) -> bool:
    """Return whether the server has a run with a parameter."""
    try:
        return bool(server.runs(experiment)[name].params)
    except (KeyError, OSError):  # no such experiment yet: HTTP status 404
        return False
