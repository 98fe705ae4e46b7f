"""Progress reports of rounds, epochs and trees; displaying them does not change a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from gpupipe.models import MODELS, FitContext, Resources, fit
from gpupipe.models.context import ValidationRows
from gpupipe.models.progress import ProgressReport
from gpupipe.random_streams import derive_seed


class Watched:
    """A display that reads the progress at every safe point, and when the training is over."""

    def __init__(self) -> None:
        self.read: Callable[[], ProgressReport | None] = lambda: None
        self.meanwhile: list[ProgressReport | None] = []
        self.last: ProgressReport | None = None

    @contextmanager
    def show(self, read: Callable[[], ProgressReport | None]) -> Iterator[None]:
        self.read = read
        yield
        self.last = read()

    def resources(self) -> Resources:
        return Resources(safe_point=lambda _: self.meanwhile.append(self.read()), show_progress=self.show)


def trained(name: str, data: Any, **params: Any) -> tuple[Any, Watched]:
    """Return a model that was watched, and the display; the test rows are those for early stopping.

    Its probabilities are those of a model that was not watched.
    """
    watched = Watched()
    validation = ValidationRows(data.X_test, data.y_test)
    unwatched: FitContext = replace(data.context, validation=validation)
    model = MODELS.get(name)(**params)
    found = fit(model, data.X, data.y, replace(unwatched, resources=watched.resources()))
    np.testing.assert_array_equal(
        found.predict(data.X_test).probability,
        fit(model, data.X, data.y, unwatched).predict(data.X_test).probability,
    )
    return found, watched


def margin(found: Any, X: Any, n_rounds: int) -> Any:
    """Return the predictions of the first rounds of a model."""
    return found.estimator.predict(xgboost.DMatrix(X), iteration_range=(0, n_rounds))


def test_xgboost_reports_each_round_and_the_early_stopping_metric(tables: dict[str, Any]) -> None:
    found, watched = trained("xgboost", tables["binary"], n_estimators=6, early_stopping_rounds=6, eval_metric="auc")
    reports = [report for report in watched.meanwhile if report is not None]
    assert [(r.done, r.total, r.unit, r.may_end_early) for r in reports] == [(k, 6, "round", True) for k in range(1, 7)]
    assert {report.metric_name for report in reports} == {"validation auc"}
    data = tables["binary"]
    by_round = [roc_auc_score(data.y_test, margin(found, data.X_test, k)) for k in range(1, 7)]
    assert [report.metric for report in reports] == pytest.approx(by_round, abs=1e-6)
    assert watched.last == reports[-1]


def test_xgboost_without_held_out_rows_evaluates_nothing_to_report_it(tables: dict[str, Any]) -> None:
    _, watched = trained("xgboost", tables["multiclass"], n_estimators=3)
    assert watched.last == ProgressReport(3, 3, "round")


@pytest.mark.parametrize("scoring", ["loss", "neg_log_loss"])
def test_histogram_boosting_reports_its_iterations_and_validation_score(scoring: str, tables: dict[str, Any]) -> None:
    params = {"max_iter": 9, "early_stopping": True, "n_iter_no_change": 9, "scoring": scoring}
    found, watched = trained("hist_gradient_boosting", tables["binary"], **params)
    score = float(found.estimator.validation_score_[-1])
    name, value = ("validation loss", -score) if scoring == "loss" else ("validation neg_log_loss", score)
    assert watched.last == ProgressReport(9, 9, "round", True, name, value)


def test_histogram_boosting_can_be_read_at_any_time(tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The attributes are scikit-learn's own: read after each of its trees, as a display's thread would."""
    from sklearn.ensemble._hist_gradient_boosting import gradient_boosting

    watched, grow = Watched(), gradient_boosting.TreeGrower.grow

    def grow_and_read(grower: Any) -> Any:
        grown = grow(grower)
        watched.meanwhile.append(watched.read())
        return grown

    monkeypatch.setattr(gradient_boosting.TreeGrower, "grow", grow_and_read)
    data = tables["binary"]
    fit(MODELS.get("hist_gradient_boosting")(max_iter=4), data.X, data.y, replace(
        data.context, resources=Resources(show_progress=watched.show)
    ))  # fmt: skip
    assert [report and report.done for report in watched.meanwhile] == [0, 1, 2, 3]
    assert watched.last == ProgressReport(4, 4, "round")


def test_a_forest_counts_its_trees_and_is_the_one_of_scikit_learn(
    tables: dict[str, Any],
) -> None:
    data, watched = tables["binary"], Watched()
    context = replace(data.context, resources=watched.resources())
    found = fit(MODELS.get("random_forest")(n_estimators=7), data.X, data.y, context, n_threads=2)
    assert watched.last == ProgressReport(7, 7, "tree")
    seed = derive_seed(data.context.seed, "model")
    alone = RandomForestClassifier(n_estimators=7, random_state=seed).fit(data.X, data.y)
    np.testing.assert_array_equal(found.predict(data.X_test).probability, alone.predict_proba(data.X_test)[:, 1])


def test_a_forest_on_one_thread_reports_nothing(tables: dict[str, Any]) -> None:
    data, watched = tables["binary"], Watched()
    context = replace(data.context, resources=watched.resources())
    fit(MODELS.get("random_forest")(n_estimators=3), data.X, data.y, context, n_threads=1)
    assert watched.last is None


def test_a_network_reports_its_epochs_and_the_loss_of_the_held_out_rows(tables: dict[str, Any]) -> None:
    found, watched = trained("mlp", tables["binary"], epochs=3, patience=None, width=8, depth=1)
    losses = [epoch["validation"] for epoch in found.history]
    wanted = [ProgressReport(k, 3, "epoch", False, "validation loss", losses[k - 1]) for k in (1, 2, 3)]
    assert [*watched.meanwhile, watched.last] == wanted


def test_a_network_reports_the_steps_of_an_epoch(tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from gpupipe.models.neural.trainer import Trainer

    watched, step, data = Watched(), Trainer._step, tables["binary"]

    def read_and_step(trainer: Trainer, *given: Any) -> Any:
        watched.meanwhile.append(watched.read())
        return step(trainer, *given)

    monkeypatch.setattr(Trainer, "_step", read_and_step)
    model = MODELS.get("mlp")(epochs=2, width=8, depth=1, batch_size=100)
    once = ValidationRows(data.X[:50], data.y[:50])  # the network is not trained again
    resources = Resources(show_progress=watched.show)
    fit(model, data.X, data.y, replace(data.context, resources=resources, validation=once))
    positions = [report.position for report in watched.meanwhile if report]
    n_steps = len(positions) // 2
    assert n_steps > 1
    assert positions == pytest.approx([k / n_steps for k in range(2 * n_steps)])
