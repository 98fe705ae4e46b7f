"""Tests of ``tune:``: the trials of a search, what they may see, and their resumption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from xgboost import XGBClassifier

from gpupipe.backends import choose
from gpupipe.config import Config, parse_config
from gpupipe.errors import ConfigError, DataError, LimitError
from gpupipe.model_parts.goal import Goal
from gpupipe.models import MODELS, FitContext
from gpupipe.models.context import Resources
from gpupipe.models.progress import ProgressReport
from gpupipe.models.xgboost.settings import XGBoost
from gpupipe.pipeline.run import run_pipeline
from gpupipe.random_streams import derive_seed
from gpupipe.report.search_record import SearchRecord
from gpupipe.splits import Split
from gpupipe.timeline.safe_points import StopSignal
from gpupipe.training.preparation.preparation import require_tuning
from gpupipe.training.tuning import search as searching
from gpupipe.training.tuning.inner_folds import make_inner_folds
from gpupipe.training.tuning.pruning import step_of
from gpupipe.training.tuning.search import TunedEntry, tune_entry
from gpupipe.training.tuning.training import FoldTraining, with_mean_rounds
from tests.inline_workers import InlineWorkers

ROWS = 600
DRAW = np.random.default_rng(1)
X = np.asfortranarray(DRAW.normal(size=(ROWS, 5)).astype(np.float32))
Y = (X[:, 0] + X[:, 1] * X[:, 2] + DRAW.normal(0, 0.7, ROWS) > 0).astype(float)
VALUES = X[:, 0] * 30 + DRAW.normal(0, 9, ROWS)
NAMES = [f"f{j}" for j in range(5)]
TREES = {"n_estimators": 60, "early_stopping_rounds": 5, "max_depth": 3}


def goal_of(task: str) -> Goal:
    return Goal(task, "y", ("no", "yes") if task == "binary" else ())  # type: ignore[arg-type]


def search(
    model: Mapping[str, Any], tune: Mapping[str, Any], y: Any = Y, task: str = "binary", path: Path | None = None,
    resume: bool = False, safe_point: Callable[[str], None] = lambda where: None, goal: Goal | None = None, **more: Any,
) -> TunedEntry:  # fmt: skip
    source, models = {"generate": "churn", "rows": 100, "target": "Churn"}, [{**model, "tune": tune}]
    config = parse_config({"source": source, "models": models})
    goal = goal or goal_of(task)
    context = FitContext(
        choose("cpu"), goal.task, 0, goal.n_classes, {}, NAMES,
        resources=Resources(checkpoint=path, resume=resume, safe_point=safe_point),
    )  # fmt: skip
    return tune_entry(config.models[0], X, y, goal, config, context, **more)


def results(record: SearchRecord) -> list[tuple[Any, ...]]:
    """Everything about the trials except their times."""
    return [(trial.label, trial.params, trial.score, trial.state, trial.n_models) for trial in record.tried]


def test_the_score_of_a_trial_is_the_mean_of_the_folds_as_scikit_learn_computes_it() -> None:
    record = search({"logistic_regression": {"max_iter": 500}}, {"trials": 3, "folds": 3}).record
    folds, _ = make_inner_folds(Split(), 3, Y, None, None, goal_of("binary"), 0)
    assert np.all(np.sum([fold.test for fold in folds], axis=0) == 1)
    for trial in record.tried:
        scores = []
        for fold in folds:
            model = LogisticRegression(C=trial.params["C"], max_iter=500, tol=1e-8)
            model.fit(X[fold.train].astype(float), Y[fold.train])
            scores.append(roc_auc_score(Y[fold.test], model.predict_proba(X[fold.test].astype(float))[:, 1]))
        assert trial.score == pytest.approx(np.mean(scores), abs=2e-4)
    assert record.tried[0].params == {"C": 1.0}


def test_bins_that_trials_share_give_the_scores_of_xgboost_itself_and_the_rounds_are_the_mean_of_the_folds() -> None:
    entry, record, _ = search({"xgboost": TREES}, {"trials": 3, "folds": 3, "space": {"learning_rate": [0.05, 0.4]}})
    folds, _ = make_inner_folds(Split(), 3, Y, None, None, goal_of("binary"), 0)
    best = max(record.tried, key=lambda trial: trial.score or 0.0)
    scores, rounds = [], []
    for fold in folds:
        model = XGBClassifier(**TREES, **best.params, random_state=derive_seed(0, "model"))
        model.fit(X[fold.train], Y[fold.train], eval_set=[(X[fold.test], Y[fold.test])], verbose=False)
        scores.append(roc_auc_score(Y[fold.test], model.predict_proba(X[fold.test])[:, 1]))
        rounds.append(model.best_iteration + 1)
    assert best.score == pytest.approx(np.mean(scores), abs=1e-6)
    tuned: Any = entry.params
    assert (tuned.n_estimators, tuned.early_stopping_rounds) == (round(np.mean(rounds)), None)
    assert (tuned.learning_rate, tuned.max_depth, entry.tune) == (best.params["learning_rate"], 3, None)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "hist_gradient_boosting", "catboost"])
def test_tuned_yaml_trains_the_same_number_of_rounds(name: str) -> None:
    found = with_mean_rounds(MODELS.get(name)().for_task("binary"), [7, 9], 1000)
    assert type(found).model_validate(found.model_dump(exclude_unset=True)) == found


def test_stated_parameters_keep_their_value_and_the_first_trial_is_the_entry_itself() -> None:
    record = search({"xgboost": {**TREES, "max_leaves": 0, "subsample": 0.9}}, {"trials": 5, "folds": 2}).record
    assert not {"max_depth", "max_leaves", "subsample", "n_estimators"} & set(record.tried[0].params)
    assert record.tried[0].params["learning_rate"] == 0.3  # outside of the published range
    assert all(5e-3 <= trial.params["learning_rate"] <= 0.1 for trial in record.tried[1:])
    assert record.score == max(trial.score for trial in record.tried if trial.score is not None)


def test_a_penalty_relative_to_the_target_follows_its_unit() -> None:
    small, large = (
        search({"lasso": {}}, {"trials": 4, "folds": 2}, scale * VALUES, "regression").record for scale in (1, 1000)
    )
    for one, other in zip(small.tried[1:], large.tried[1:], strict=True):
        assert other.params["alpha"] == pytest.approx(1000 * one.params["alpha"])


def test_a_trial_that_is_worse_than_the_median_is_pruned_and_importances_name_the_parameter_that_matters() -> None:
    space = {"alpha": {"choices": [1.0, 1e9]}, "tol": {"low": 1e-5, "high": 1e-3}}
    record = search({"ridge": {}}, {"trials": 25, "folds": 4, "space": space}, VALUES, "regression").record
    pruned = [trial for trial in record.tried if trial.state == "pruned"]
    assert pruned
    assert {trial.params["alpha"] for trial in pruned} == {1e9}
    assert all(trial.score is None and trial.n_models < 4 for trial in pruned)
    assert next(iter(record.importances)) == "alpha"
    assert sum(record.importances.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_folds_that_are_trained_at_the_same_time_give_the_same_trials(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, both = FoldTraining.train, threading.Barrier(2)
    found: list[list[tuple[Any, ...]]] = []

    def meet(self: FoldTraining, settings: Any, fold: int, *others: Any) -> Any:
        if fold and len(found) == 1:
            both.wait(60)
        return train(self, settings, fold, *others)

    monkeypatch.setattr(FoldTraining, "train", meet)
    for n_at_once in (1, 2):
        monkeypatch.setattr(FoldTraining, "n_at_once", lambda self, settings, n=n_at_once: n)
        tune = {"trials": 12, "folds": 5, "space": {"learning_rate": [0.01, 1.0], "reg_lambda": [0.1, 100.0]}}
        found.append(results(search({name: {**TREES, "n_estimators": 20}}, tune).record))
    assert found[0] == found[1]
    assert {trial[3] for trial in found[0]} == {"complete", "pruned"}


def test_a_stop_of_two_trainings_at_the_same_time_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def stop(where: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            both.wait(60)
            raise LimitError("limits.time")

    monkeypatch.setattr(FoldTraining, "n_at_once", lambda self, settings: 2)
    with pytest.raises(LimitError, match=r"limits\.time"):
        search({"xgboost": TREES}, {"trials": 3, "folds": 3}, safe_point=stop)


@pytest.mark.parametrize(
    ("name", "is_able"), [("xgboost", True), ("hist_gradient_boosting", False), ("catboost", False)]
)
def test_which_folds_are_trained_at_the_same_time(name: str, is_able: bool) -> None:
    backend = choose("cpu")
    training = FoldTraining(X, Y, (), FitContext(backend, "binary", 0, 2, {}, NAMES))
    assert training.n_at_once(MODELS.get(name)()) == (backend.n_threads if is_able else 1)


def test_slow_learners_are_not_pruned_for_their_rounds() -> None:
    def step(done: int, rate: float) -> int | None:
        report = ProgressReport(done, 1000, "round", True, "validation logloss", 0.4)
        return step_of(report, XGBoost(learning_rate=rate))

    assert step(9, 0.1) is None
    assert step(20, 0.1) == step(40, 0.05) == 1
    assert step_of(ProgressReport(50, 100, "round", True, "validation auc", 0.9), XGBoost()) is None


def test_a_failed_trial_is_recorded_and_the_search_goes_on() -> None:
    space = {"n_neighbors": {"choices": [5, 100_000]}}
    record = search({"knn": {}}, {"trials": 8, "folds": 2, "space": space}).record
    failed = [trial for trial in record.tried if trial.state == "failed"]
    assert failed
    assert {trial.params["n_neighbors"] for trial in failed} == {100_000}
    assert record.best_params == {"n_neighbors": 5}


def test_if_all_trials_fail_there_is_one_error_with_the_first_reason() -> None:
    with pytest.raises(ConfigError) as raised:
        search({"knn": {"n_neighbors": 5000}}, {"trials": 50, "folds": 2, "space": {"n_neighbors": [5000, 6000]}})
    assert "all 10 trials of knn failed; the first: " in str(raised.value)
    assert "n_neighbors = 5000" in str(raised.value)


def test_the_time_limit_ends_the_search_after_the_first_trial_at_the_earliest() -> None:
    seconds = iter(range(0, 10**6, 10))
    record = search({"ridge": {}}, {"trials": 50, "folds": 2, "time_limit": "1s"}, VALUES, "regression",
                    clock=lambda: float(next(seconds))).record  # fmt: skip
    assert [trial.state for trial in record.tried] == ["complete"]
    assert record.ended == "the time limit of 1.00 s"


@pytest.mark.parametrize("limit", range(20, 30))
def test_the_time_limit_may_be_reached_anywhere(limit: int) -> None:
    seconds = iter(range(10**6))  # one second between any two readings of the clock
    record = search({"ridge": {}}, {"trials": 50, "folds": 2, "time_limit": limit}, VALUES, "regression",
                    clock=lambda: float(next(seconds))).record  # fmt: skip
    assert record.ended.startswith("the time limit of")


def test_a_resumed_search_counts_the_time_of_the_interrupted_one(tmp_path: Path) -> None:
    class Clock:
        now = 0.0

        def __call__(self) -> float:
            self.now += 1.0
            return self.now

    limited = {"trials": 50, "folds": 2, "time_limit": "60s"}
    whole = search({"ridge": {}}, limited, VALUES, "regression", clock=Clock()).record
    part = search(
        {"ridge": {}}, {**limited, "trials": 4}, VALUES, "regression", tmp_path / "a.db", clock=Clock()
    ).record
    rest = search({"ridge": {}}, limited, VALUES, "regression", tmp_path / "a.db", True, clock=Clock()).record
    assert len(part.tried) == 4 < len(whole.tried) < 50
    assert abs(len(rest.tried) - len(whole.tried)) <= 1  # a resumed search asks the clock once more


def test_a_search_that_is_stopped_keeps_its_trials_and_a_longer_one_continues_them(tmp_path: Path) -> None:
    def stop(where: str) -> None:
        if where == "after trial 6":
            raise LimitError("limits.time is reached")

    with pytest.raises(LimitError):
        search({"xgboost": TREES}, {"trials": 9, "folds": 2}, path=tmp_path / "a.db", safe_point=stop)
    resumed = search({"xgboost": TREES}, {"trials": 12, "folds": 2}, path=tmp_path / "a.db", resume=True)
    whole = search({"xgboost": TREES}, {"trials": 12, "folds": 2})
    assert results(resumed.record) == results(whole.record)
    assert resumed.entry == whole.entry
    assert "6 trials were loaded from a checkpoint" in resumed.notes
    assert {trial.state for trial in whole.record.tried} == {"complete", "pruned"}


def test_a_corrupt_file_of_trials_is_reported_and_the_search_starts_again(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database" * 100)
    found = search({"ridge": {}}, {"trials": 2, "folds": 2}, VALUES, "regression", tmp_path / "a.db", True)
    assert len(found.record.tried) == 2
    assert any("the saved trials cannot be read" in note for note in found.notes)


def test_folds_keep_groups_together_and_go_forward_in_time() -> None:
    groups, times = np.arange(ROWS) // 40, DRAW.permutation(ROWS).astype(float)
    by_group, _ = make_inner_folds(Split(group="g"), 3, Y, groups, None, goal_of("binary"), 0)
    assert all(not set(groups[fold.train]) & set(groups[fold.test]) for fold in by_group)
    by_time, _ = make_inner_folds(Split(time="t"), 3, Y, None, times, goal_of("binary"), 0)
    assert all(times[fold.train].max() < times[fold.test].min() for fold in by_time)
    with pytest.raises(DataError, match="2 groups are too few for 3 folds") as raised:
        make_inner_folds(Split(group="g"), 3, Y, groups // 8, None, goal_of("binary"), 0)
    assert raised.value.where == "models: tune.folds"


def test_a_class_with_fewer_rows_than_folds_is_trained_on_folds_that_are_not_stratified_with_a_note() -> None:
    rare = np.where(np.arange(ROWS) < 598, 0.0, 1.0)
    folds, note = make_inner_folds(Split(), 3, rare, None, None, goal_of("binary"), 0)
    assert note == "the folds of the search are not stratified: class 'yes' has 2 rows; 3 folds need at least 3"
    assert sum(int(fold.test.sum()) for fold in folds) == ROWS


def test_a_class_that_only_held_out_rows_have_is_scored_but_does_not_stop_training_early() -> None:
    y = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
    y[:2] = 3.0
    model = {"xgboost": {**TREES, "class_weight": "balanced"}}
    goal = Goal("multiclass", "y", ("a", "b", "c", "d"))
    found = search(model, {"trials": 2, "folds": 3}, y, "multiclass", goal=goal)
    assert [trial.state for trial in found.record.tried] == ["complete", "complete"]
    assert "not stratified" in found.notes[0]


def test_a_search_needs_rows_in_one_memory(table: Path) -> None:
    config = run_config(table)
    with pytest.raises(ConfigError, match="needs the training rows in memory"):
        require_tuning(config, InlineWorkers(choose("cpu")))
    with pytest.raises(ConfigError, match="on a cluster"):
        require_tuning(run_config(table, cluster={"scheduler": "local", "workers": 2}))
    with pytest.raises(ConfigError, match="in partitions"):
        tune_entry(config.models[0], 0, Y, goal_of("binary"), config, FitContext(choose("cpu"), "binary", 0, 2))  # type: ignore[arg-type]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "rows.csv", Y)


def write_table(path: Path, y: Any) -> Path:
    lines = [",".join([*(f"{value:.4f}" for value in row), f"{label:.0f}"]) for row, label in zip(X, y, strict=True)]
    path.write_text(",".join([*NAMES, "y"]) + "\n" + "\n".join(lines) + "\n")
    return path


def run_config(table: Path, **changes: Any) -> Config:
    document: dict[str, Any] = {
        "seed": 4,
        "source": {"path": str(table), "target": "y", "cache": False},
        "models": [{"xgboost": TREES, "tune": {"trials": 6, "folds": 2}}],
        "evaluate": {"importance": False},
        "report": {"enabled": False},
    }
    return parse_config(document | changes)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[TunedEntry]:
    """The results of all searches of this process."""
    found: list[TunedEntry] = []

    def spy(*args: Any, **kwargs: Any) -> TunedEntry:
        found.append(tune_entry(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(searching, "tune_entry", spy)
    return found


def test_the_search_does_not_depend_on_test_rows(tmp_path: Path, table: Path, searches: list[TunedEntry]) -> None:
    flipped = np.where(np.arange(ROWS) < ROWS * 4 // 5, Y, 1 - Y)
    other = write_table(tmp_path / "flipped.csv", flipped)
    for number, path in enumerate((table, other)):
        run_pipeline(run_config(path, split={"shuffle": False, "stratify": False}), tmp_path / f"run{number}")
    first, second = (results(found.record) for found in searches)
    assert first == second


def test_with_validation_rows_the_refit_has_the_parameters_that_were_found(
    tmp_path: Path, table: Path, searches: list[TunedEntry]
) -> None:
    models = [{"xgboost": TREES, "tune": {"trials": 6, "folds": 2}}, {"gaussian_nb": {}}]
    config = run_config(table, models=models)
    run_pipeline(config, tmp_path / "run")
    (found,) = searches
    manifest = json.loads((tmp_path / "run/model/manifest.json").read_text())
    assert manifest["model"]["params"]["n_estimators"] == found.entry.params.n_estimators  # type: ignore[attr-defined]
    tuned = yaml.safe_load((tmp_path / "run/tuned.yaml").read_text())
    assert parse_config({"source": {"path": str(table), "target": "y"}, **tuned}).models[0] == found.entry


def test_under_cross_validation_each_fold_and_the_final_training_search(
    tmp_path: Path, table: Path, searches: list[TunedEntry]
) -> None:
    models = [{"logistic_regression": {}, "tune": {"trials": 2, "folds": 2}}]
    run_pipeline(run_config(table, models=models, split={"cv": 3}), tmp_path / "run")
    assert len(searches) == 4
    assert len({tuple(trial.score for trial in found.record.tried) for found in searches}) == 4


KILLED_IN_TRIAL = 5
KILL = f"""
import os, signal, sys
from pathlib import Path
from gpupipe.config import load_config
from gpupipe.training.preparation.preparation import require_tuning
from gpupipe.pipeline.run import run_pipeline
from gpupipe.training.tuning.training import FoldTraining

train, calls = FoldTraining.train, []
def train_or_die(self, settings, fold, *others):
    calls.append(fold)
    if calls.count(0) == {KILLED_IN_TRIAL} and fold == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return train(self, settings, fold, *others)
FoldTraining.train = train_or_die
run_pipeline(load_config(Path(sys.argv[1])), Path(sys.argv[2]))
"""


def test_a_killed_run_is_resumed_with_the_same_trials(tmp_path: Path, table: Path, searches: list[TunedEntry]) -> None:
    from gpupipe.config import load_config

    config = tmp_path / "config.yaml"
    document = {
        "seed": 4, "source": {"path": str(table), "target": "y", "cache": False},
        "models": [{"xgboost": TREES, "tune": {"trials": 9, "folds": 2}}],
        "evaluate": {"importance": False}, "report": {"enabled": False},
    }  # fmt: skip
    config.write_text(yaml.safe_dump(document))
    command = [sys.executable, "-c", KILL, str(config), str(tmp_path / "a/run")]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert list(tmp_path.glob("a/.checkpoints/*.db"))
    resumed = run_pipeline(load_config(config), tmp_path / "a/run", resume=True)
    whole = run_pipeline(load_config(config), tmp_path / "b/run")
    assert f"{KILLED_IN_TRIAL - 1} trials were loaded from a checkpoint" in searches[0].notes
    notes = [note.text for stage in resumed.timeline.stages for note in stage.notes]
    assert not any(note.startswith("no checkpoint") for note in notes)
    assert results(searches[0].record) == results(searches[1].record)
    assert resumed.metrics == whole.metrics
    assert not (tmp_path / "a/.checkpoints").exists()


def test_a_trained_model_is_loaded_with_the_record_of_its_search(
    tmp_path: Path, table: Path, searches: list[TunedEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(where: str) -> None:
        if "evaluate" in where:
            raise Interrupted

    signal_of_run = StopSignal()
    signal_of_run.watch(interrupt)
    with pytest.raises(Interrupted):
        run_pipeline(run_config(table), tmp_path / "run", stop_signal=signal_of_run)
    run_pipeline(run_config(table), tmp_path / "run", resume=True)
    (found,) = searches  # not searched again
    tuned = yaml.safe_load((tmp_path / "run/tuned.yaml").read_text())
    assert parse_config({"source": {"path": str(table), "target": "y"}, **tuned}).models[0] == found.entry


def test_optuna_is_required_before_training(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpupipe.training.preparation import preparation

    monkeypatch.setattr(preparation, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'gpupipe\[tune\]'"):
        run_pipeline(run_config(table), tmp_path / "run")
