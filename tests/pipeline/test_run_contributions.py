"""Contributions in report.html, recomputed with `Model.explain` of the exported model."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import parse_config
from gpupipe.models.composites.ensemble import EnsembleMember, FittedEnsemble
from gpupipe.models.contributions.trees import TreeExplainer
from gpupipe.models.linear.fitted import Coefficients, FittedLinear
from gpupipe.models.xgboost.fitted import FittedXGBoost
from gpupipe.pipeline import run as run_module
from gpupipe.pipeline.records.champion_explanation import explain_champion, models_to_explain
from gpupipe.pipeline.records.importances_and_plots import ExplainedRows
from gpupipe.pipeline.result import Run
from gpupipe.pipeline.run import run_pipeline
from gpupipe.random_streams import make_generator
from gpupipe.report.contributions import TargetContributions, contribution_note

HOSTILE = "<b onload=alert(1)>&\"'{{ 7*7 }}"
MINUS = "\N{MINUS SIGN}"
XGBOOST = {"xgboost": {"n_estimators": 20, "max_depth": 3}}


class RecordedRun:
    """A run, with the contributions and the rows that its report was made from."""

    run: Run
    found: list[TargetContributions]
    explained: ExplainedRows

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, **settings: Any) -> None:
        def recorded(job: Any, outcome: Any, explained: Any) -> list[TargetContributions]:
            self.explained, self.found = explained, explain_champion(job, outcome, explained)
            return self.found

        monkeypatch.setattr(run_module, "explain_champion", recorded)
        self.run = run_pipeline(parse_config({"name": "x", "report": {"plots": False}, **settings}), folder)

    @property
    def drawn(self) -> Any:
        """Row numbers of the explained rows, in the order in which they were drawn."""
        n = len(self.explained.rows)
        return self.explained.rows[make_generator(0, "rows with contributions").permutation(n)]

    @property
    def page(self) -> str:
        return (self.run.path / "report.html").read_text(encoding="utf-8")

    @property
    def text(self) -> str:
        body = re.sub(r"(?s)<style>.*?</style>|<svg.*?</svg>", " ", self.page)
        return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body)))


def customers(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "tenure": rng.integers(0, 72, n).astype(float),
            HOSTILE: rng.choice(np.array(["month", "<i>year", None], object), n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "noise": rng.normal(size=n),
        }
    )
    frame.loc[::9, "tenure"] = np.nan
    moved = np.where(frame[HOSTILE] == "month", 1.5, -1.0) - frame.tenure.fillna(30) / 20
    frame["left"] = np.where(moved + rng.logistic(size=n) > -1.5, "yes", "no")
    frame["spend"] = 10 * moved + rng.normal(size=n)
    frame["plan"] = np.select([moved > -1.0, frame.noise > 0.3], ["a", "b"], "c")
    return frame


@pytest.mark.parametrize("split", [{"test_size": 0.4}, {"cv": 3}])
def test_a_page_has_the_contributions_of_the_exported_model(
    split: dict[str, float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frame = customers()
    source = {"frame": frame.drop(columns=["spend", "plan"]), "target": "left", "positive": "yes"}
    evaluate = {"importance": {"rows": 100}}
    shown = RecordedRun(monkeypatch, tmp_path / "run", source=source, split=split, models=[XGBOOST], evaluate=evaluate)
    (found,) = shown.found
    assert found.n_rows == 100
    np.testing.assert_array_equal(shown.explained.truth.y, frame.left.eq("yes").to_numpy()[shown.explained.rows])
    drawn = frame.iloc[shown.drawn]
    (tenure,) = (column for column in found.columns if column.name == "tenure")
    np.testing.assert_array_equal(tenure.values, drawn.tenure)

    expected = shown.run.model.explain(drawn)
    np.testing.assert_allclose(found.values[:, :, 0], expected.values, atol=1e-6)
    assert found.base[0] == pytest.approx(expected.base, abs=1e-6)
    for name, size in expected.importances().items():
        printed = re.search(rf"{re.escape(str(name))} ([\d.]+) (?:raised|▲|▼|no|–|\d)", shown.text)
        assert printed is not None and float(printed[1]) == pytest.approx(size, abs=6e-4), name
    assert HOSTILE not in shown.page and "raised by month" in shown.text
    best = int(expected.margins.argmax())
    ((_, amount),) = expected.strongest(1)[best]
    assert f"row {drawn.index[best]} Probability of yes" in shown.text
    assert f"({amount:+.2f} log".replace("-", MINUS) in shown.text
    assert ("on which the exported model was trained as well" in shown.text) == ("cv" in split)


def test_several_targets_and_classes_have_their_own_sections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = {"frame": customers().drop(columns="spend"), "target": ["left", "plan"]}
    shown = RecordedRun(monkeypatch, tmp_path / "run", source=source, models=[XGBOOST])
    left, plan = shown.found
    expected = shown.run.model.explain(customers().iloc[shown.drawn])
    assert left.values.shape[2] == 1 and plan.labels == ("a", "b", "c")
    np.testing.assert_allclose(np.concatenate([left.values, plan.values], axis=2), expected.values, atol=1e-6)
    for title in ("left: why", "plan: why", "Contributions to a", "Contributions to c", "log-odds of each class"):
        assert title in shown.text


def test_the_middle_quantile_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    frame = customers().drop(columns=["left", "plan"])
    source = {"frame": frame, "target": "spend", "task": "quantile"}
    shown = RecordedRun(monkeypatch, tmp_path / "run", source=source, models=[XGBOOST])
    (found,) = shown.found
    expected = shown.run.model.explain(frame.iloc[shown.drawn])
    np.testing.assert_allclose(found.values[:, :, 0], expected.to_frame("quantile_0.5"), atol=1e-6)
    assert "the predicted 0.5 quantile of spend" in shown.text


def test_columns_derived_from_a_table_add_up_to_the_contribution_of_the_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frame = customers().assign(key=range(600))
    rng = np.random.default_rng(1)
    orders = pd.DataFrame({"key": rng.integers(0, 600, 3000), "amount": rng.exponential(size=3000)})
    frame["spend"] += frame.key.map(orders.groupby("key").amount.sum()).fillna(0.0)
    data = frame[["key", "tenure", "spend"]]
    shown = RecordedRun(
        monkeypatch, tmp_path / "run", source={"frame": data, "target": "spend"}, models=[XGBOOST],
        tables={"orders": {"frame": orders, "on": "key", "cardinality": "one_to_many"}},
        features=[{"aggregate": {"table": "orders", "columns": {"amount": ["sum", "max"]}}}],
    )  # fmt: skip
    (found,) = shown.found
    expected = shown.run.model.explain(data.iloc[shown.drawn], tables={"orders": orders})
    of_orders = [i for i, column in enumerate(found.columns) if column.name.startswith("orders_")]
    assert len(of_orders) == 2 and all(found.columns[i].kind == "numeric" for i in of_orders)
    np.testing.assert_allclose(found.values[:, of_orders, 0].sum(axis=1), expected.to_frame()["orders"], atol=1e-5)


def test_clusters_and_models_that_fail_have_no_section(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    frame = customers()[["tenure", "noise"]].fillna(0.0)
    models = [{"kmeans": {"n_clusters": 3}}]
    shown = RecordedRun(monkeypatch, tmp_path / "clusters", source={"frame": frame}, models=models)
    assert shown.found == [] and "Why:" not in shown.text

    def fail(*_: object) -> None:
        raise RuntimeError("no explainer")

    monkeypatch.setattr(FittedXGBoost, "explainer", fail)
    source = {"frame": customers().drop(columns=["left", "plan"]), "target": "spend"}
    shown = RecordedRun(monkeypatch, tmp_path / "failed", source=source, models=[XGBOOST])
    assert "Why:" not in shown.text
    assert [note.stage for note in shown.run.timeline.all_notes("warning")] == ["explain"]


@pytest.mark.parametrize(("row_seconds", "n_rows"), [(0.015, 66), (2.5, 1), (0.0, 240)])
def test_as_many_rows_are_explained_as_counted_work_allows(
    row_seconds: float, n_rows: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(TreeExplainer, "row_seconds", row_seconds)
    data = customers().drop(columns=["left", "plan"])
    source = {"frame": data, "target": "spend"}
    shown = RecordedRun(monkeypatch, tmp_path / "run", source=source, models=[XGBOOST], split={"test_size": 0.4})
    (found,) = shown.found
    assert found.n_rows == n_rows and f"of {n_rows}{' of 240' * (n_rows < 240)} test rows" in shown.text
    expected = shown.run.model.explain(data.iloc[shown.drawn[:n_rows]])
    np.testing.assert_allclose(found.values[:, :, 0], expected.values, atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "n_models", "total"), [((8, 8, 8), 8, 24), ((8, 8, 8, 1), 7, 22), ((8,) * 7, 3, 21), ((2,) * 30, 1, 30)]
)
def test_of_a_large_ensemble_some_models_of_each_member_are_explained(
    sizes: tuple[int, ...], n_models: int, total: int
) -> None:
    model = FittedLinear(Coefficients(np.ones((1, 1)), np.zeros(1)), "regression", ("x",))
    members = [EnsembleMember(f"m{i}", "ridge", 1 / len(sizes), (0,), (model,) * n) for i, n in enumerate(sizes)]
    found, n = models_to_explain(FittedEnsemble(tuple(members), "regression", ("x",)))
    assert (n, len(found.models)) == (n_models, total)
    assert models_to_explain(model) == (model, 1)


@pytest.mark.parametrize(("n_models", "expected"), [(8, False), (3, True)])
def test_the_page_says_how_many_models_of_a_member_were_explained(n_models: int, expected: bool) -> None:
    found = TargetContributions(
        target="y",
        scale="score",
        method="weighted sum",
        columns=(),
        values=np.zeros((2, 0, 1)),
        base=np.zeros(1),
        n_models=n_models,
        n_all_models=8,
    )
    assert ("3 of 8 models of each member" in contribution_note(found)) is expected
