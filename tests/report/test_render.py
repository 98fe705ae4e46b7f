from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, median_absolute_error, precision_score, recall_score

from gpupipe.metrics import METRICS, ColumnImportance
from gpupipe.metrics.settings import ThresholdRule
from gpupipe.report.data import (
    Classification,
    ColumnQuality,
    Confusion,
    Curve,
    LeaderboardRow,
    Lineage,
    ReportData,
)
from gpupipe.report.render import render
from gpupipe.report.settings import Report
from gpupipe.report.slices import MetricSlice
from gpupipe.report.text import METRIC_TITLES, THRESHOLD_RULE_TITLES
from tests.report.conftest import churn_rows, contributions
from tests.report.html_page import HOSTILE, Page


def hostile_run(churn: ReportData) -> ReportData:
    curves = [Curve(x=[0, 1], y=[0, 1], label=HOSTILE), Curve(x=[0, 1], y=[0, 1], label="_价格 🎈")]
    return replace(
        churn,
        name=HOSTILE, created=HOSTILE, device=HOSTILE, device_reason=HOSTILE, task=HOSTILE, target=HOSTILE,
        metric=HOSTILE, evaluated_on=HOSTILE, importance_note=HOSTILE, config=HOSTILE,
        leaderboard=[LeaderboardRow(model=HOSTILE, metrics={HOSTILE: 0.5}, validation={HOSTILE: 0.5}, best=True)],
        classification=Classification(
            roc=curves, precision_recall=curves, calibration=curves, gains=curves, positive=HOSTILE, threshold=0.5,
            threshold_rule=HOSTILE, confusion=Confusion(labels=[HOSTILE, "b"], counts=[[1, 2], [3, 4]]),
        ),
        importances=[ColumnImportance(name=HOSTILE, mean=1.0, std=0.0)],
        contributions=[contributions([HOSTILE, f"{HOSTILE}2"], label=HOSTILE, level=HOSTILE)],
        columns=[ColumnQuality(name=HOSTILE, kind=HOSTILE, dtype=HOSTILE, null_fraction=0.5, minimum=HOSTILE,
                               mean=HOSTILE, maximum=HOSTILE, top=HOSTILE, notes=[HOSTILE])],
        classes={HOSTILE: {HOSTILE: (3, 1)}},
        slices=[MetricSlice("", None, 4, {HOSTILE: 0.5}),
                MetricSlice(HOSTILE, HOSTILE, 4, {HOSTILE: math.nan}, notes=[HOSTILE])],
        lineage=[Lineage(output=HOSTILE, inputs=[HOSTILE], op=HOSTILE)],
        stages=[{**churn.stages[0], "name": HOSTILE, "device": HOSTILE, "interpreter": HOSTILE, "notes": [HOSTILE]}],
        notes=[HOSTILE], warnings=[HOSTILE], versions={HOSTILE: HOSTILE},
    )  # fmt: skip


def test_the_page_shows_the_summary_for_managers(churn: ReportData, tmp_path: Path) -> None:
    page = Page(render(churn, tmp_path))
    for shown in (
        "Binary classification of Churn", "ROC AUC", "Average precision", "xgboost", "5,634 to train", "1,409 to test",
        "2.93 s", "from 41 input columns", "referrer: 41.2 % of the values are missing", "logistic_regression",
        "Cumulative gains", "ROC curve", "Calibration", "Confusion matrix", "Churn = Yes",
        "Yes is predicted from a probability of 0.3127 (chosen for the best F1 score)", "TotalCharges",
        "11 nulls imputed with the median",
        "Contract×PaymentMethod", "target_encode", "random_forest", "scikit-learn 1.9.1", "positive: 'Yes'",
        "sklearn, matplotlib", "1.20 s",
    ):  # fmt: skip
        assert shown in page.text, shown
    assert "roc_auc" not in page.text.replace("select_by", "")  # the names of metrics.json


def test_the_reason_for_the_cpu_is_under_details(churn: ReportData, prices: ReportData, tmp_path: Path) -> None:
    page = Page(render(churn, tmp_path))
    before = page.text[: page.text.index("Leaderboard")]
    assert "cpu" in before and "no NVIDIA driver" not in before
    assert "The run used the CPU: no NVIDIA driver found." in page.text
    assert "NVIDIA H200, 139 GiB" in Page(render(prices, tmp_path)).text.partition("Leaderboard")[0]


def test_sentences_gains_and_threshold_match_the_rows(churn: ReportData, tmp_path: Path) -> None:
    y, score = churn_rows()
    text = Page(render(churn, tmp_path)).text
    found = pd.DataFrame({"y": y, "score": score}).sort_values("score", ascending=False)
    called = score > 0.3127
    assert (
        f"Of the 100 test rows with the highest predicted probability of Churn = Yes, {found.y.head(100).sum()} are "
        f"Yes; of 100 chosen at random, {100 * y.mean():.0f} would be."
    ) in text
    precision, recall = 100 * precision_score(y, called), 100 * recall_score(y, called)
    assert f"The model predicts Yes for {called.sum():,} test rows, and {precision:.1f} % of these" in text
    assert f"it finds {recall:.1f} % of the {y.sum():,} rows that are Yes" in text
    assert f"Precision {precision:.1f} % , recall {recall:.1f} % ." in text
    for top in (70, 704):
        hits = found.y.head(top).sum()
        row = f"{top:,} {hits:,} {100 * hits / top:.1f} % {100 * hits / y.sum():.1f} % {hits / top / y.mean():.2f}"
        assert row in text


def test_importances_that_are_noise_are_named_as_such(churn: ReportData, tmp_path: Path) -> None:
    text = Page(render(churn, tmp_path)).text
    assert "Contract 0.0923 ± 0.0103" in text
    bars, _, noise = text.partition("No measurable importance:")
    assert "gender" not in bars.partition("relies on")[2] and noise.startswith(" gender, flat.")


def test_a_regression_says_how_far_predictions_are_off(prices: ReportData, tmp_path: Path) -> None:
    text = Page(render(prices, tmp_path)).text
    assert prices.regression is not None
    y, guess = np.array(prices.regression.y_true), np.array(prices.regression.y_pred)
    half, most = np.quantile(np.abs(y - guess), [0.5, 0.9])
    assert f"Half of the predictions are within {half:.2f} of the true price, and 90 % within {most:.2f}." in text
    constant = median_absolute_error(y, np.full(len(y), np.median(y)))
    assert f"Always predicting the median of the rows, half would be within {constant:,.0f}." in text
    assert "Measured out of fold" in text


def test_several_classes_are_compared_with_the_most_frequent_one(churn: ReportData, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y, guess = rng.choice(list("abc"), 900, p=[0.2, 0.5, 0.3]), rng.choice(list("abc"), 900)
    found = Classification(confusion=Confusion(labels=list("abc"), counts=confusion_matrix(y, guess)))
    text = Page(render(replace(churn, task="multiclass", target="kind", classification=found), tmp_path)).text
    right, constant = accuracy_score(y, guess), accuracy_score(y, ["b"] * 900)
    assert (
        f"kind is predicted correctly for {100 * right:.1f} % of the 900 test rows; always predicting b, the most "
        f"frequent class, would be correct for {100 * constant:.1f} %."
    ) in text


def test_clusters_are_counted(churn: ReportData, tmp_path: Path) -> None:
    data = replace(churn, task="clustering", target=None, classification=None, cluster_sizes=[30, 0, 60, 10])
    text = Page(render(data, tmp_path)).text
    assert "The 100 test rows fall into 3 clusters; the largest has 60.0 % of them, the smallest 10.0 %." in text


def test_every_metric_and_threshold_rule_has_a_title() -> None:
    assert set(METRIC_TITLES) == set(METRICS.names())
    assert set(THRESHOLD_RULE_TITLES) == set(get_args(ThresholdRule))


def test_a_regression_shows_residuals_folds_and_the_device(prices: ReportData, tmp_path: Path) -> None:
    text = Page(render(prices, tmp_path)).text
    for shown in ("547.31", "± 12.90", "mean over 5 folds", "lower is better", "Residuals", "NVIDIA H200", "3.0 GiB"):
        assert shown in text, shown
    assert "Confusion" not in text
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == ["predicted_actual.svg", "residuals.svg"]


def test_a_training_with_epochs_shows_its_losses(churn: ReportData, prices: ReportData, tmp_path: Path) -> None:
    losses = [Curve(x=[1, 2, 3], y=[0.6, 0.5, 0.45], label="training rows"),
              Curve(x=[1, 2, 3], y=[0.61, 0.55, 0.56], label=HOSTILE)]  # fmt: skip
    path = render(replace(churn, losses=losses), tmp_path)
    assert "Training loss of the best model by epoch" in Page(path).text
    plot = (tmp_path / "plots" / "training.svg").read_text(encoding="utf-8")
    assert "training rows" in plot and "<script" not in plot
    assert ElementTree.fromstring(plot).tag.endswith("svg")
    assert "by epoch" not in Page(render(prices, tmp_path)).text


def test_the_page_refers_to_nothing_outside_and_runs_no_script(churn: ReportData, tmp_path: Path) -> None:
    path = render(churn, tmp_path)
    assert not re.search(r"https?://|//cdn|@import|url\((?!#)", path.read_text(encoding="utf-8"))
    Page(path).check_self_contained()


def test_every_value_of_the_data_is_escaped(churn: ReportData, tmp_path: Path) -> None:
    path = render(hostile_run(churn), tmp_path)
    html = path.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "\x1b" not in html
    assert "\x00" not in html
    assert "49" not in re.findall(r"&amp;(.{0,4})", html)
    page = Page(path)
    assert page.text.count("<script>alert(1)</script>\"'&{{ 7*7 }}\\x1b[31m\\x00$x_1$") >= 25
    assert not any("alert" in tag or any("alert" in name for name in attributes) for tag, attributes in page.elements)


@pytest.mark.parametrize("kind", ["churn", "prices", "hostile"])
def test_plots_are_well_formed_and_every_id_on_the_page_is_unique(
    kind: str, churn: ReportData, prices: ReportData, tmp_path: Path
) -> None:
    data = {"churn": churn, "prices": prices, "hostile": hostile_run(churn)}[kind]
    path = render(data, tmp_path)
    plots = sorted((tmp_path / "plots").glob("*.svg"))
    assert plots
    for plot in plots:
        assert ElementTree.parse(plot).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    inlined = re.findall(r"<svg viewBox.*?</svg>", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(inlined) == len(plots)
    for svg in inlined:
        ElementTree.fromstring(svg)
    ids = [attributes["id"] for _, attributes in Page(path).elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', "".join(inlined))
    assert used
    assert set(used) <= set(ids)


def test_inlined_plots_take_all_their_colours_from_the_page(churn: ReportData, tmp_path: Path) -> None:
    html = render(churn, tmp_path).read_text(encoding="utf-8")
    for svg in re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL):
        assert "var(--accent)" in svg
        assert set(re.findall(r"#[0-9a-f]{6}\b", svg)) == set()


def test_the_same_data_gives_the_same_bytes(churn: ReportData, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        render(churn, folder)
    first, second = ({p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()} for folder in folders)
    assert first == second
    assert set(first) == {"report.html", "gains.svg", "roc.svg", "precision_recall.svg", "calibration.svg"}


def test_long_curves_are_thinned_without_losing_their_ends_or_their_shape(tmp_path: Path, churn: ReportData) -> None:
    from gpupipe.report.plots import thin

    x = np.linspace(0, 1, 100_000)
    curve = Curve(x=x.tolist(), y=np.sqrt(x).tolist())
    thin_x, thin_y = thin(curve)
    assert len(thin_x) <= 160
    assert (thin_x[0], thin_x[-1], thin_y[0], thin_y[-1]) == (0, 1, 0, 1)
    assert np.abs(np.interp(x, thin_x, thin_y) - curve.y).max() < 0.01
    render(replace(churn, classification=Classification(roc=[curve])), tmp_path)
    assert (tmp_path / "plots" / "roc.svg").stat().st_size < 30_000


def test_without_plots_there_is_no_plot_and_no_numpy(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from gpupipe.report.data import Classification, Curve, LeaderboardRow, ReportData
from gpupipe.report.render import render
from gpupipe.report.settings import Report
from gpupipe.report.slices import MetricSlice
heavy = {{"numpy", "pandas", "pyarrow", "sklearn", "jinja2"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
render(ReportData(
    name="x", created="now", seconds=1.0, device="cpu", device_reason="", task="binary", metric="auc",
    leaderboard=[LeaderboardRow(model="m", metrics={{"auc": 0.5}})], rows_train=1, rows_test=1, n_features=1,
    classification=Classification(roc=[Curve(x=[0, 1], y=[0, 1])]),
), Path({str(tmp_path)!r}), Report(plots=False, title="Quarterly <b>"))
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    text = Page(tmp_path / "report.html").text
    assert "Quarterly <b>" in text


def test_the_latency_of_each_model_is_shown_if_it_was_measured(churn: ReportData, tmp_path: Path) -> None:
    assert "p99" not in Page(render(churn, tmp_path, Report(plots=False))).text
    measured = [
        replace(row, p50_seconds=1e-4, p99_seconds=p99, limit_seconds=0.002)
        for row, p99 in zip(churn.leaderboard, (85.3e-6, 0.0015, 0.0123), strict=True)
    ]
    timed = replace(churn, leaderboard=measured, latency_note="One row, p99: measured.")
    text = Page(render(timed, tmp_path, Report(plots=False))).text
    for shown in ("one row p99", "85.3 us p50 100 us", "1.5 ms", "12.3 ms", "One row, p99: measured."):
        assert shown in text, shown
    assert text.count("over 2 ms") == 1 and "random_forest over 2 ms" in text


def test_empty_and_unknown_figures_are_shown_as_dashes(churn: ReportData, tmp_path: Path) -> None:
    nothing: dict[str, Any] = {
        "leaderboard": [LeaderboardRow(model="m", metrics={"roc_auc": float("nan"), "f1": None})],
        "columns": [ColumnQuality(name="all_null", kind="numeric", dtype="null", null_fraction=1.0, mean=float("nan"))],
        "classification": Classification(confusion=Confusion(labels=["a", "b"], counts=[[0, 0], [0, 0]])),
        "importances": [ColumnImportance(name="flat", mean=0.0, std=0.0)],
        "stages": [],
    }
    text = Page(render(replace(churn, **nothing), tmp_path)).text
    assert "–" in text
    assert "nan" not in text.lower()
    assert "None" not in text


def test_a_table_of_thousands_of_columns_is_cut_and_counts_the_others(churn: ReportData, tmp_path: Path) -> None:
    lineage = [Lineage(output=f"f{i}", inputs=["x"], op="hash") for i in range(3000)]
    path = render(replace(churn, lineage=lineage), tmp_path, Report(plots=False))
    assert "and 2,500 more" in Page(path).text
    assert path.stat().st_size < 200_000


def test_slices_are_placed_on_one_axis_with_their_intervals(churn: ReportData, tmp_path: Path) -> None:
    name = churn.metric
    slices = [
        MetricSlice("", None, 1409, {name: 0.8}),
        MetricSlice("Contract", "Monthly", 900, {name: 0.6, "f1": 0.25}, {name: (0.5, 0.7)}, is_worse=True),
        MetricSlice("Contract", None, 1, {name: 0.9, "f1": 1.0}),
        MetricSlice("Region", "north", 0, {name: math.nan}, notes=["no row of the slice was evaluated"]),
    ]
    path = render(replace(churn, slices=slices), tmp_path)
    page, html = Page(path), path.read_text(encoding="utf-8")
    # The axis is from 0.5 to 0.9 with a twentieth of it on both sides.
    at = lambda value: f"{round(100 * (value - 0.48) / 0.44, 3)}"  # noqa: E731
    own = html[html.index("Monthly") :]
    assert f'<b style="left: {at(0.6)}%"></b>' in own and f'<i style="left: {at(0.8)}%"></i>' in own
    assert f'<div class="whisker" style="left: {at(0.5)}%; right: {at(0.48 + 0.92 - 0.7)}%">' in own
    assert '<tr class="worse">' in html[: html.index("Monthly")]
    assert "Monthly 900 rows 0.6000 0.5000 to 0.7000" in page.text and "missing 1 row 0.9000" in page.text
    assert "north 0 rows no row of the slice was evaluated –" in page.text
    assert "<h2>Slices" not in render(churn, tmp_path).read_text(encoding="utf-8")


def test_classes_folds_and_distributions_are_shown(churn: ReportData, tmp_path: Path) -> None:
    folds = [{churn.metric: 0.5 + i / 10} for i in range(3)]
    row = LeaderboardRow(
        model="xgboost", metrics={churn.metric: 0.6, f"{churn.metric}_std": 0.0816}, best=True, folds=folds
    )
    columns = [
        ColumnQuality(name="tenure", kind="numeric", dtype="int64", null_fraction=0, bars=[1, 4, 2]),
        ColumnQuality(name="note", kind="text", dtype="string", null_fraction=0),
    ]
    classes = {"Churn": {"No": (3000, 1000), "Yes": (1000, 1)}}
    path = render(replace(churn, leaderboard=[row], columns=columns, classes=classes), tmp_path)
    page = Page(path)
    assert "ROC AUC of each fold model 1 2 3 mean ± sd xgboost 0.5000 0.6000 0.7000 0.6000 0.0816" in page.text
    assert "Classes of Churn training and test rows No 3,000 75.0 % · 1,000 99.9 % Yes 1,000 25.0 % · 1" in page.text
    (bars,) = [attributes for tag, attributes in page.elements if (tag, attributes.get("class")) == ("svg", "mini")]
    assert bars["viewbox"] == "0 0 3 20"
    drawn = re.search(r'class="mini".*?d="([^"]*)"', path.read_text(encoding="utf-8"))
    assert drawn is not None and drawn[1] == "M0 20v-5h.9V20zM1 20v-20h.9V20zM2 20v-10h.9V20z"
