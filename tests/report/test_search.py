"""Ensembles and tuning in the report: members, trials and the sentence about what was compared."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpupipe.report.data import LeaderboardRow, ReportData
from gpupipe.report.generated_features import GeneratedFeature, GeneratedFeatures, read_generated
from gpupipe.report.render import render
from gpupipe.report.search_record import SearchRecord, TrialState, TriedCounts, TriedModel, count_tried
from gpupipe.report.sentences import comparison_sentence
from tests.report.conftest import tuning_search
from tests.report.html_page import HOSTILE, Page


@pytest.fixture(scope="module")
def page(searched: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(render(searched, tmp_path_factory.mktemp("page")))


def test_members_are_listed_by_weight_and_the_others_are_tried_and_not_kept(page: Page) -> None:
    ((members, others),) = re.findall("Members of best(.*)Tried and not kept(.*)Tuning of", page.text)
    assert "weighted mean of 2 of 5 models" in members and "ended: time limit of 60 s" in members
    assert members.index("logistic_regression 0.600 0.8449 8 800 ms C 0.1") < members.index("xgboost 0.400 0.8453")
    assert "xgboost_2 0.8461 complete 9.40 s max_depth 3, learning_rate 0.03123" in others
    assert "knn – failed 200 ms" in others and "ft_transformer – skipped –" in others
    assert "Skipped: predicted to take longer than the time that was left." in others and "Pruned" not in others


def test_the_best_parameters_of_a_tuned_model_are_shown_to_be_copied(searched: ReportData, tmp_path: Path) -> None:
    html = render(searched, tmp_path).read_text(encoding="utf-8")
    assert f"<pre>{searched.leaderboard[1].tuned_yaml}</pre>" in html


def test_the_plot_of_tuning_is_in_the_report_and_in_a_file(searched: ReportData, tmp_path: Path) -> None:
    page = Page(render(searched, tmp_path))
    assert (tmp_path / "plots" / "tuning-2.svg").is_file()  # the exported ensemble is first and has no plot
    assert all(label in page.text for label in ("best so far", "pruned", "lower"))


def test_generated_features_are_listed_with_their_inputs_and_the_yardstick_of_chance(page: Page) -> None:
    text = page.text[page.text.index("Generated features") :]
    assert "2 of 2,312 candidates are kept (arithmetic: 2,000, crosses: 312 tried)" in text
    assert "7 exceeded the yardstick" in text and "(arithmetic: 0.3 %, crosses: 0.4 %)" in text
    assert "0.4178 instead of 0.4213" in text
    assert "TotalCharges / tenure 2.1 % from TotalCharges, tenure" in text


def test_the_views_of_an_ensemble_count_their_selection_once() -> None:
    selection = {"op": "Generate", "column": "(all)", "tried": {"arithmetic": 12}, "yardsticks": {"arithmetic": 0.1}}
    feature = {"op": "Generate", "column": "a / b", "family": "arithmetic", "inputs": ["a", "b"], "gain": 0.2}
    other = {**selection, "tried": {"groups": 3}, "yardsticks": {"groups": 0.2}}  # a second generate
    found = read_generated([selection, feature, selection, feature, other])
    assert found is not None and found.n_tried == 15 and len(found.features) == 1


def test_a_selection_that_kept_nothing_is_reported(searched: ReportData, tmp_path: Path) -> None:
    state = {"op": "Generate", "column": "(all)", "tried": {"arithmetic": 12}, "screened": 0}
    data = replace(searched, generated=read_generated([{"op": "Impute", "column": "a"}, state]))
    assert "0 of 12 candidates are kept" in Page(render(data, tmp_path)).text
    assert read_generated([{"op": "Impute", "column": "a"}]) is None


def test_searches_are_escaped_and_tolerate_missing_scores(searched: ReportData, tmp_path: Path) -> None:
    tried = (
        TriedModel(HOSTILE, HOSTILE, {HOSTILE: HOSTILE}, None, state="failed"),
        TriedModel("äöü", HOSTILE, {}, None, weight=1.0),
    )
    searches = [
        SearchRecord("ensemble", HOSTILE, tried, None, HOSTILE),
        SearchRecord("tuning", HOSTILE, tried, None, HOSTILE, {HOSTILE: HOSTILE}, {HOSTILE: 1.0}),
        SearchRecord("tuning", "roc_auc", (), None),
    ]
    rows = [
        replace(row, search=search, tuned_yaml=HOSTILE)
        for row, search in zip(searched.leaderboard, searches, strict=True)
    ]
    generated = GeneratedFeatures((GeneratedFeature(HOSTILE, HOSTILE, (HOSTILE,)),), {HOSTILE: 2}, {HOSTILE: 0.1})
    path = render(replace(searched, leaderboard=rows, generated=generated), tmp_path)
    assert "<script" not in path.read_text(encoding="utf-8")
    assert "äöü" in Page(path).text


def test_a_lower_score_is_better_for_a_loss(searched: ReportData, tmp_path: Path) -> None:
    search = replace(tuning_search(5), metric="log_loss")
    row = LeaderboardRow(model="xgboost", metrics={"log_loss": 0.4}, best=True, search=search)
    data = replace(searched, metric="log_loss", higher_is_better=False, leaderboard=[row])
    assert "Log loss by trial" in Page(render(data, tmp_path)).text
    assert (tmp_path / "plots" / "tuning.svg").is_file()


def test_alternatives_are_counted_once() -> None:
    states: list[TrialState] = ["complete", "pruned", "failed", "skipped"]
    tried = tuple(TriedModel(str(i), "knn", state=state) for i, state in enumerate(states))
    ensemble, tuning = SearchRecord("ensemble", "r2", tried), SearchRecord("tuning", "r2", tried)
    assert count_tried([None, ensemble, tuning], 9) == TriedCounts(models=4, trials=2, features=9)
    assert str(TriedCounts(1, trials=50)) == "50 trials" and str(TriedCounts(2)) == "2 models"
    assert not TriedCounts(1).is_choice


FOLDS = {"rows_test": 0, "evaluated_on": "mean over 5 folds", "n_validation_rows": 0}


@pytest.mark.parametrize(
    ("models", "changes", "expected"),
    [
        (["plain"], {}, ""),
        (["best"], {"n_validation_rows": 500},  # for a threshold
         "3 models were compared on out-of-fold predictions of the training rows; no choice was made on the 1,409 test "
         "rows, which only measure the result."),
        (["best"], FOLDS,
         "3 models were compared on out-of-fold predictions of the training rows of each fold; no choice was made on "
         "the rows that test the fold."),
        (["plain", "plain"], {**FOLDS, "selection": {"roc_auc": 0.8441}},
         "2 models were compared on the rows of all folds; with the choice of the model included, ROC AUC is 0.8441."),
        (["plain", "plain"], FOLDS,
         "2 models were compared on the rows of all folds, which also measure the result, so the score of the best "
         "model is optimistic."),
        (["plain", "plain"], {"target": None, "n_validation_rows": 0}, "2 models were compared on the test rows."),
    ],
)  # fmt: skip
def test_the_report_names_what_was_compared_and_the_rows_it_was_compared_on(
    models: list[str], changes: dict[str, Any], expected: str, searched: ReportData
) -> None:
    kinds = {"best": searched.leaderboard[0], "plain": searched.leaderboard[2]}
    board = [kinds[kind] for kind in models]
    data = replace(searched, leaderboard=board, tried=count_tried(row.search for row in board), **changes)
    assert comparison_sentence(data) == expected


def test_the_summary_of_a_tuned_model_counts_pruned_trials() -> None:
    assert tuning_search().summary() == "40 trials, 6 pruned; best held-out ROC AUC 0.8490; ended: 40 trials"
