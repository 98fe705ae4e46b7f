"""Training of an ensemble with models that record their folds and advance a clock."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpupipe.backends import choose
from gpupipe.errors import ConfigError, LimitError
from gpupipe.metrics import Evaluate
from gpupipe.models import MODELS, FitContext, FittedModel, Prediction, Resources
from gpupipe.models.best import PORTFOLIO_MODELS, Best
from gpupipe.models.context import DeadlineReached
from gpupipe.models.linear.settings import LogisticRegression
from gpupipe.splits import Fold
from gpupipe.training.ensemble import fit_ensemble, portfolio, training
from gpupipe.training.ensemble.entry_training import EntryTraining
from gpupipe.training.ensemble.fold_training import EnsembleRows, FoldModel
from gpupipe.training.ensemble.folds import FoldRule, predicted_rows
from gpupipe.training.ensemble.portfolio import PortfolioEntry, make_portfolio
from gpupipe.training.ensemble.scores import HeldOutScore
from gpupipe.training.ensemble.time_limit import TrainingTime, round_seconds
from gpupipe.training.ensemble.training import EnsembleTraining
from gpupipe.training.side_by_side import run_together

N = 400
RNG = np.random.default_rng(0)
X = np.asfortranarray(RNG.normal(size=(N, 3)).astype("f4"))
Y = RNG.normal(size=N)


def context(task="regression", **changes):
    n_classes = {"regression": 0, "binary": 2, "multiclass": 3}[task]
    metric = {"regression": "rmse", "binary": "roc_auc", "multiclass": "log_loss"}[task]
    names = ["a", "b", "c"]
    return FitContext(choose("cpu"), task, 0, n_classes, feature_names=names, metric=metric, **changes)


@dataclass(frozen=True, repr=False)
class _Target(FittedModel):
    """Stands for a model; its estimator is the label of the portfolio entry."""

    library = "none"

    def predict(self, X):
        raise NotImplementedError

    def importances(self):
        return None


@dataclass
class SpiedRows(EnsembleRows):
    """Rows whose models predict the target with the noise of their entry, and take the seconds of its cost."""

    noise: dict = field(default_factory=dict)
    seconds: dict = field(default_factory=dict)
    now: float = 0.0
    fits: list = field(default_factory=list)

    def fit_fold(self, settings, fold, seed, n_threads, safe_point):
        self.fits.append((settings.C, fold))
        for _ in range(10):
            self.now += self.seconds[settings.C] / 10
            try:
                safe_point("round")
            except DeadlineReached:
                if not settings.stops_early(N):
                    raise
                break
        rows = predicted_rows(fold)
        noise = np.random.default_rng([seed, int(settings.C)]).normal(size=int(rows.sum()))
        predicted = self.y[rows] + self.noise[settings.C] * noise
        return FoldModel(_Target(settings.C, "regression"), predicted, 0.0)

    def n_at_once(self, settings):
        return 1


class StopsEarly(LogisticRegression):
    """Settings of a model whose training can end after any round."""

    def stops_early(self, n_rows):
        return True


def ensemble(noise, seconds=None, model=None, costs=None, store=None, kinds=None, **changes):
    """Return the training of an ensemble whose i-th model has noise[i] and takes seconds[i]."""
    kinds = kinds or [MODELS.get("logistic_regression")] * len(noise)
    ids = range(1, len(noise) + 1)
    rows = SpiedRows(
        X, Y, None, context(**changes), {}, dict(zip(ids, noise, strict=True)),
        dict(zip(ids, seconds or [0.0] * len(noise), strict=True)),
    )  # fmt: skip
    entries = [
        PortfolioEntry(f"model_{i}", f"model_{i}", {}, kind(C=i), cost)
        for i, cost, kind in zip(ids, costs or [1.0] * len(noise), kinds, strict=True)
    ]
    model = model or Best()
    score = HeldOutScore("rmse", "regression", 0, choose("cpu"))
    more = {} if store is None else {"store": store}
    return rows, EnsembleTraining(model, rows, entries, score, TrainingTime(model.time_limit, lambda: rows.now), **more)


def states(record):
    return {tried.label: tried.state for tried in record.tried}


def test_a_row_is_never_predicted_by_a_model_that_was_trained_on_it():
    y = RNG.integers(0, 2, N).astype(float)  # no pattern: only a model that has seen a row can predict it
    rows = EnsembleRows(X, y, None, context("binary"))
    entry = PortfolioEntry("nearest", "knn", {}, MODELS.get("knn")(n_neighbors=1), 1.0)
    score = HeldOutScore("roc_auc", "binary", 2, choose("cpu"))
    fitted, record = EnsembleTraining(Best(), rows, [entry], score, TrainingTime(None, lambda: 0.0)).train()
    assert record.score == record.tried[0].score == pytest.approx(0.5, abs=0.1)
    assert len(fitted.estimator[0].models) == 8
    trained = np.mean([model.predict(X).output for model in fitted.estimator[0].models], axis=0)
    assert ((trained > 0.5) == y).all()  # seven of the eight have


def test_members_are_those_that_help():
    _, run = ensemble([1.0, 1.0, 50.0])
    fitted, record = run.train()
    assert set(fitted.weights()) == {"model_1", "model_2"}
    assert sum(fitted.weights().values()) == pytest.approx(1)
    assert {tried.label: tried.weight for tried in record.tried} == {**fitted.weights(), "model_3": 0.0}
    assert record.score < min(tried.score for tried in record.tried)
    assert record.ended == "the portfolio is complete"


def test_one_member_if_others_do_not_help():
    fitted, record = ensemble([9.0, 0.1, 9.0])[1].train()
    assert dict(fitted.weights()) == {"model_2": 1.0}
    assert record.score == pytest.approx(record.tried[1].score, rel=1e-12)


def test_groups_are_never_divided():
    groups = np.arange(N) // 7
    rows, run = ensemble([1.0], groups=groups)
    run.train()
    assert len(rows.fits) == 8
    for _, fold in rows.fits:
        assert not set(groups[fold.train]) & set(groups[fold.test])


def test_under_a_time_split_every_row_is_predicted_and_the_latest_are_trained_on():
    rows, run = ensemble([1.0], times=np.arange(N))
    run.train()
    later, *folds = [fold for _, fold in rows.fits]
    assert sum(fold.test for fold in folds).tolist() == [1] * N
    assert sum(fold.train[-1] for fold in folds) == 7
    assert predicted_rows(later).tolist() == [False] * (N - N // 8) + [True] * (N // 8)
    assert not ((later.train | later.test) & predicted_rows(later)).any()


def test_the_weights_of_a_fold_that_evaluates_are_those_of_the_other_folds():
    own = np.arange(N) < N // 2
    given = Fold(~own, own), Fold(own, ~own)

    class SpiedFolds(SpiedRows):
        def fit_fold(self, settings, fold, *arguments):
            self.noise = {1: 5.0 * (fold is given[0]), 2: 5.0 * (fold is given[1])}
            return super().fit_fold(settings, fold, *arguments)

    rows, run = ensemble([0.0, 0.0])
    spied = SpiedFolds(X, Y, None, rows.context, {}, {}, rows.seconds, rule=FoldRule(given=given))
    run = replace(run, rows=spied)
    run.train()
    assert [[member.label for member in each.members] for each in run.of_folds()] == [["model_1"], ["model_2"]]


def test_a_forest_is_trained_once_and_predicts_the_rows_that_its_trees_were_not_grown_on():
    y = RNG.integers(0, 2, N).astype(float)  # no pattern: only a tree that has seen a row can predict it
    entries = make_portfolio("binary", choose("cpu"), ["random_forest", "extra_trees"])
    assert all(entry.is_out_of_bag for entry in entries)
    score = HeldOutScore("roc_auc", "binary", 2, choose("cpu"))
    rows = EnsembleRows(X, y, None, context("binary"))
    fitted, record = EnsembleTraining(Best(), rows, entries[:2], score, TrainingTime(None, lambda: 0.0)).train()
    assert [tried.score for tried in record.tried] == pytest.approx([0.5, 0.5], abs=0.1)
    assert {len(member.models) for member in fitted.estimator} == {1}
    assert ((fitted.predict(X).output > 0.5) == y).mean() > 0.95  # grown on all rows
    assert not {"oob_score_", "oob_decision_function_"} & vars(fitted.estimator[0].models[0].estimator).keys()
    assert any("predicts the training rows out of bag" in note for note in fitted.notes)


def test_a_forest_has_a_probability_for_classes_that_the_training_rows_lack():
    rows = EnsembleRows(X, 2.0 * (X[:, 0] > 0), None, context("multiclass"))
    (entry,) = make_portfolio("multiclass", choose("cpu"), ["extra_trees"])[:1]
    found = rows.fit_forest(entry.settings, 0)
    assert found.predicted.shape == (N, 3)
    assert not found.predicted[:, 1].any()
    assert ((found.predicted[:, 2] > 0.5) == (X[:, 0] > 0)).mean() > 0.9


@pytest.mark.parametrize("has", ["has_groups", "has_weights"])
def test_forests_are_trained_on_folds_if_rows_have_groups_or_weights(has):
    entries = make_portfolio("regression", choose("cpu"), ["random_forest"], **{has: True})
    assert not any(entry.is_out_of_bag for entry in entries)
    assert {entry.params["n_estimators"] for entry in entries} == {100}


@pytest.mark.parametrize(
    ("time_limit", "n_rounds", "later", "each"),
    [(20, 1, 3, 17), (60, 2, 9, 25.5), (600, 1, 30, 570), (3600, 6, 30, 595)],
)
def test_training_rounds_leave_time_for_explanation_export_and_report(time_limit, n_rounds, later, each):
    assert round_seconds(time_limit, n_rounds) == pytest.approx(each)
    assert time_limit - n_rounds * each == later


def test_a_model_that_is_predicted_to_exceed_the_limit_is_skipped_for_a_cheaper_one():
    rows, run = ensemble([1.0, 1.0, 1.0], [1.0, 30.0, 0.5], Best(time_limit=100), [1.0, 30.0, 0.5])
    _, record = run.train()
    assert states(record) == {"model_1": "complete", "model_2": "skipped", "model_3": "complete"}
    assert record.ended == "time limit of 1 min 40 s"
    assert [label for label, _ in rows.fits] == [1] * 8 + [3] * 8


def test_a_model_that_would_take_most_of_what_is_left_is_tried_last():
    rows, run = ensemble([1.0, 1.0, 1.0], [5.0, 30.0, 5.0], Best(time_limit=100, folds=2), [5.0, 30.0, 5.0])
    _, record = run.train()
    assert set(states(record).values()) == {"complete"}
    assert [label for label, _ in rows.fits] == [1, 1, 3, 3, 2, 2]


def test_a_model_that_takes_longer_than_predicted_leaves_time_for_others():
    rows, run = ensemble([1.0, 1.0, 1.0], [5.0, 90.0, 5.0], Best(time_limit=100, folds=2), [5.0, 5.0, 5.0])
    _, record = run.train()
    assert states(record) == {"model_1": "complete", "model_2": "skipped", "model_3": "complete"}
    assert rows.now < 50


def test_a_model_is_given_up_after_the_first_fold_if_the_others_do_not_fit():
    rows, run = ensemble([1.0, 1.0, 1.0], [1.0, 30.0, 0.5], Best(time_limit=100))  # model_2 costs more than predicted
    _, record = run.train()
    assert states(record) == {"model_1": "complete", "model_2": "skipped", "model_3": "complete"}
    assert rows.now < 100
    assert [label for label, _ in rows.fits].count(2) == 1


def test_a_model_that_can_end_early_is_ended_by_the_limit_and_kept():
    kinds = [StopsEarly, StopsEarly, StopsEarly]
    seconds, costs = [5.0, 60.0, 200.0], [5.0, 60.0, 200.0]
    rows, run = ensemble([1.0, 1.0, 1.0], seconds, Best(time_limit=100, folds=2), costs, kinds=kinds)
    fitted, record = run.train()
    assert states(record) == {"model_1": "complete", "model_2": "complete", "model_3": "skipped"}  # more than twice
    assert "the time limit ended model_2 before the best round" in fitted.notes
    assert 90 < rows.now < 110
    assert record.ended == "time limit of 1 min 40 s"


def test_a_model_that_was_ended_is_not_saved_for_a_run_that_may_have_another_limit():
    store = _Memory()
    kinds = [StopsEarly, StopsEarly]
    _, run = ensemble([1.0, 1.0], [5.0, 60.0], Best(time_limit=100, folds=2), [5.0, 60.0], store, kinds)
    fitted, _ = run.train()
    assert "the time limit ended model_2 before the best round" in fitted.notes
    assert {label for label, *_ in store.kept} == {"model_1"}


def test_a_further_model_of_a_member_that_was_ended_is_not_kept(monkeypatch):
    rows, run = ensemble([1.0], [10.0], Best(time_limit=100), kinds=[StopsEarly])
    fit_fold = rows.fit_fold

    def fit_slower(*arguments):
        found = fit_fold(*arguments)
        rows.seconds = {1: 1000.0}
        return found

    monkeypatch.setattr(rows, "fit_fold", fit_slower)
    fitted, _ = run.train()
    assert len(rows.fits) == 2
    assert [len(member.models) for member in fitted.members] == [1]


def test_networks_and_boosters_can_end_early():
    rows = EnsembleRows(X, Y, None, context())
    entries = make_portfolio("regression", choose("cpu"))
    can = {entry.name: rows.can_end_early(entry.settings) for entry in entries}
    assert not any(can[name] for name in ("ridge", "random_forest", "extra_trees"))
    assert all(can[name] for name in can if name not in ("ridge", "random_forest", "extra_trees"))


def test_no_training_begins_after_an_error_and_a_deadline_hides_no_other_error():
    begun = []

    def call(i, error=None):
        begun.append(i)
        if error is not None:
            raise error

    barrier = threading.Barrier(2)

    def wait_and_call(i, error):
        barrier.wait(5)
        call(i, error)

    pair = [partial(wait_and_call, 0, DeadlineReached()), partial(wait_and_call, 1, LimitError("limits.time"))]
    with pytest.raises(LimitError):
        run_together(pair, 2, 1)
    begun.clear()
    with pytest.raises(ValueError, match="no such fold"):
        run_together([partial(call, 0, ValueError("no such fold")), *(partial(call, i) for i in range(1, 50))], 2, 1)
    assert len(begun) < 50


@pytest.mark.parametrize(("seconds", "n_folds"), [(1.0, 8), (3.0, 5), (3.5, 4)])
def test_folds_fit_the_limit(seconds, n_folds):
    _, run = ensemble([1.0], [seconds], Best(time_limit=100))
    assert len(run.train()[0].members[0].models) == n_folds


def test_with_little_time_members_are_trained_on_further_folds():
    rows, run = ensemble([1.0, 1.0, 50.0], [10.0, 10.0, 10.0], Best(time_limit=100))
    fitted, record = run.train()
    assert states(record) == dict.fromkeys(states(record), "complete")
    assert [tried.n_models for tried in record.tried] == [4, 4, 1]
    assert sorted(len(member.models) for member in fitted.members) == [4, 4]
    assert 3 not in [label for label, _ in rows.fits[3:]]
    assert 80 <= rows.now <= 100


def test_a_further_training_that_fails_leaves_the_models_of_the_member(monkeypatch):
    rows, run = ensemble([1.0, 1.0, 50.0], [10.0, 10.0, 10.0], Best(time_limit=100))
    fit_fold = rows.fit_fold

    def fit_one_fold(settings, *arguments):
        if settings.C in [label for label, _ in rows.fits]:
            raise ValueError("no such fold")
        return fit_fold(settings, *arguments)

    monkeypatch.setattr(rows, "fit_fold", fit_one_fold)
    fitted, _ = run.train()
    assert [len(member.models) for member in fitted.members] == [1, 1]
    assert "a further training of model_1 failed: no such fold" in fitted.notes


def test_a_stated_number_of_folds_is_kept():
    _, run = ensemble([1.0, 1.0], [10.0, 1.0], Best(time_limit=100, folds=6), [10.0, 1.0])
    assert len(run.train()[0].members[0].models) == 6


def test_with_a_limit_that_is_too_short_the_cheapest_model_is_trained():
    rows, run = ensemble([1.0, 1.0], [50.0, 5.0], Best(time_limit=2), [10.0, 1.0])
    fitted, record = run.train()
    assert [label for label, _ in rows.fits] == [1, 2]  # no further folds, since the limit is exceeded
    assert [member.label for member in fitted.members] == ["model_2"]
    assert any("too short for any model; model_2" in note for note in fitted.notes)
    assert states(record) == {"model_1": "skipped", "model_2": "complete"}


@pytest.mark.parametrize(("seconds", "n_trees"), [(100.0, 147), (1_000.0, 50)])
def test_with_a_limit_that_is_too_short_for_a_forest_it_has_fewer_trees(seconds, n_trees):
    entries = make_portfolio("regression", choose("cpu"), ["random_forest"])[:1]
    rows = EnsembleRows(X, Y, None, context())
    limit = TrainingTime(50.0, lambda: 0.0)
    limit.add_measured(entries[0], seconds)
    score = HeldOutScore("rmse", "regression", 0, choose("cpu"))
    fitted, record = EnsembleTraining(Best(time_limit=50), rows, entries, score, limit).train()
    assert len(fitted.estimator[0].models[0].estimator.estimators_) == n_trees
    assert record.tried[0].params["n_estimators"] == n_trees
    assert any(f"random_forest, the cheapest one, was trained anyway with {n_trees} trees" in n for n in fitted.notes)


@pytest.mark.parametrize("has", ["", "has_groups"])
def test_the_cost_of_a_forest_is_measured_with_a_tenth_of_its_trees(has, monkeypatch):
    clock, trained = [0.0], []

    def fit(settings, *given):
        trained.append((settings.n_estimators, given[0].train.sum() if has else len(rows.y)))
        clock[0] += 0.5 + 0.1 * settings.n_estimators

    (entry, *_) = make_portfolio("regression", choose("cpu"), ["random_forest"], **({has: True} if has else {}))
    n = 12_000
    rows = EnsembleRows(np.zeros((n, 1), np.float32), np.zeros(n), None, context())
    monkeypatch.setattr(rows, "fit_fold" if has else "fit_forest", fit)
    time = TrainingTime(1e6, lambda: clock[0])
    fold = Fold(np.arange(n) >= n // 8, np.arange(n) < n // 8)
    store: Any = None
    settings: Any = entry.settings
    EntryTraining(rows, time, store).measure_few_trees(entry, fold)
    n_trees = settings.n_estimators
    assert trained == [(n_trees // 10, fold.train.sum() if has else n)]
    assert time.fold_seconds(entry) == pytest.approx(5 + 0.1 * n_trees)


def test_a_further_model_gets_the_time_of_the_same_entry_not_of_others_of_its_name():
    long, short = (
        PortfolioEntry(label, "mlp", {}, MODELS.get("mlp")(), cost) for label, cost in (("mlp", 10.0), ("mlp_2", 8.0))
    )
    time = TrainingTime(60.0, lambda: 0.0)
    time.add_measured(long, 7.0)
    assert time.fold_seconds(short) == pytest.approx(7.0 * 8 / 10)
    time.add_measured(short, 0.3)
    assert [time.fold_seconds(long), time.fold_seconds(short)] == pytest.approx([7.0, 0.3])
    assert time.fold_seconds(replace(long, name="tabm", label="tabm")) == pytest.approx(10 * (0.7 + 0.3 / 8) / 2)


def test_a_model_that_fails_is_not_a_member_and_a_run_that_stops_ends():
    rows, run = ensemble([1.0, 1.0])
    del rows.noise[1]
    fitted, record = run.train()
    assert states(record) == {"model_1": "failed", "model_2": "complete"}
    assert any("model_1 failed" in note for note in fitted.notes)

    rows, run = ensemble([1.0])
    del rows.noise[1]
    with pytest.raises(KeyError):
        run.train()

    def stop(where):
        if where.startswith("after 2 folds of model_2"):
            raise LimitError("limits.time is reached")

    rows, run = ensemble([1.0, 1.0, 1.0], resources=Resources(safe_point=stop))
    with pytest.raises(LimitError):
        run.train()
    assert [label for label, _ in rows.fits] == [1] * 8 + [2] * 2


class _Memory:
    """Store in memory, which counts what it loads."""

    def __init__(self):
        self.kept, self.n_loaded = {}, 0

    def load(self, entry, fold, seed):
        found = self.kept.get((entry.label, fold.test.tobytes(), seed))
        self.n_loaded += found is not None
        return found

    def save(self, entry, fold, seed, trained):
        self.kept[entry.label, fold.test.tobytes(), seed] = replace(trained, seconds=2.0)


def test_models_of_an_interrupted_run_are_loaded_and_their_time_counts():
    store = _Memory()
    whole = ensemble([1.0, 1.0, 2.0], store=store)[1].train()
    for key in list(store.kept)[12:]:
        del store.kept[key]
    rows, run = ensemble([1.0, 1.0, 2.0], store=store)
    fitted, record = run.train()
    assert (store.n_loaded, len(rows.fits)) == (12, 12)
    assert fitted.weights() == whole[0].weights()
    assert record.score == whole[1].score
    assert run.time.elapsed == 24.0


def test_slow_members_are_dropped_under_a_latency_limit(monkeypatch):
    monkeypatch.setattr(training, "row_seconds", lambda model, row: {1: 0.003, 2: 0.0001, 3: 0.0001}[model.estimator])
    _, run = ensemble([0.5, 1.0, 1.0])
    run.max_latency = 0.01
    assert set(run.train()[0].weights()) == {"model_2", "model_3"}


def test_models_that_would_not_be_members_are_released_if_memory_is_short(monkeypatch):
    rows, run = ensemble([90.0, 1.0, 1.0])
    available = iter([10**12, 0, 10**12, 10**12])
    backend = rows.context.backend
    monkeypatch.setattr(
        type(backend), "memory", lambda self: type("Figures", (), {"available": next(available)}), raising=True
    )
    fitted, _ = run.train()
    assert any("released model_1" in note for note in fitted.notes)
    assert set(fitted.weights()) == {"model_2", "model_3"}


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_real_models_of_every_task(task):
    y = X[:, 0] + X[:, 1] * X[:, 0] + 0.1 * Y
    if task != "regression":
        y = np.digitize(y, [0.0] if task == "binary" else [-0.5, 0.5]).astype(float)
    if task == "multiclass":
        y[y == 2] = 1
        y[7] = 2  # a class with one row: a fold is trained without it
    names = ["logistic_regression", "ridge", "random_forest"]
    fitted, record, _ = fit_ensemble(X, Best(models=names, folds=3), y, context(task), Evaluate())
    prediction = fitted.predict(X)
    assert isinstance(prediction, Prediction)
    prediction.check(N, fitted.n_classes)
    assert "failed" not in states(record).values()
    sign = 1 if task == "binary" else -1
    assert record.score is not None
    assert all(sign * record.score >= sign * (tried.score or 0) for tried in record.tried)


def test_class_weights_become_row_weights():
    y = (X[:, 0] + Y > 1.5).astype(float)
    plain, balanced = (
        fit_ensemble(X, Best(models=["logistic_regression"], folds=2, **more), y, context("binary"), Evaluate())[0]
        for more in ({}, {"class_weight": "balanced"})
    )
    assert balanced.predict(X).output.mean() > 1.5 * plain.predict(X).output.mean()
    with pytest.raises(ConfigError, match="class_weight is for classification"):
        fit_ensemble(X, Best(class_weight="balanced"), Y, context(), Evaluate())


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_the_portfolio_has_unique_labels_and_known_parameters(task, monkeypatch):
    monkeypatch.setattr(portfolio, "find_spec", lambda name: True)  # settings need no library
    entries = make_portfolio(task, choose("cpu"))
    assert {entry.name for entry in entries} <= set(PORTFOLIO_MODELS)
    costs = {each.name: each.cost for each in make_portfolio(task, choose("cpu"), n_classes=10)}
    assert (costs["lightgbm"] > 10) and (costs["random_forest"] < 10)
    assert len({entry.label for entry in entries}) == len(entries)
    assert {"catboost", "lightgbm", "mlp", "random_forest", "xgboost"} <= {entry.name for entry in entries}
    assert all(entry.params.items() <= entry.settings.model_dump().items() for entry in entries)


def test_a_network_is_the_second_model_for_more_than_two_classes(monkeypatch):
    monkeypatch.setattr(portfolio, "find_spec", lambda name: True)
    two, three = (make_portfolio("multiclass", choose("cpu"), n_classes=n) for n in (2, 3))
    labels = [entry.label for entry in three]
    assert labels[:3] == ["lightgbm", "mlp", "xgboost"]
    before = [entry.label for entry in two]
    assert before.index("mlp") > 5 and [label for label in before if label != "mlp"] == labels[:1] + labels[2:]


def test_a_network_is_trained_in_its_turn_for_as_long_as_fits():
    rows, run = ensemble([1.0, 1.0, 1.0], [5.0, 60.0, 5.0], Best(time_limit=100, folds=2), [5.0, 60.0, 5.0],
                         kinds=[StopsEarly] * 3)  # fmt: skip
    network = run.portfolio[1]
    run.portfolio[1] = replace(network, label="mlp", name="mlp")
    _, record = run.train()
    assert [label for label, _ in rows.fits] == [1, 1, 2, 2, 3, 3]
    assert set(states(record).values()) == {"complete"}
    assert rows.now == 10 + (24 + 36) + 10  # each fold of the network ends soon after half of what is left


def test_settings_name_models_of_the_portfolio():
    with pytest.raises(ValueError, match="the portfolio has no model 'best'"):
        Best(models=["best"])
    with pytest.raises(ConfigError, match="no model of ridge can learn the task binary"):
        make_portfolio("binary", choose("cpu"), ["ridge"])
