"""Tests of `evaluate.calibrate` in runs with several classes, and of calibrations that do not help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import log_loss

import gpupipe as gp

RNG = np.random.default_rng(11)
N = 1_500
FRAME = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
for copy in range(8):  # naive Bayes counts correlated columns as evidence, and becomes overconfident
    FRAME[f"a{copy}"] = FRAME["a"] + 0.1 * RNG.normal(size=N)
FRAME["kind"] = np.array(["low", "middle", "high"])[np.digitize(FRAME["a"] + RNG.normal(size=N), [-0.7, 0.7])]


def trained(path: Path, how: str, **settings: Any) -> gp.Run:
    evaluate = {"calibrate": how, "metrics": ["log_loss", "accuracy"], "importance": False}
    quiet: dict[str, Any] = {"report": {"enabled": False}, "models": ["gaussian_nb"]}
    return gp.Pipeline(FRAME, target="kind", evaluate=evaluate, **quiet | settings).run(path)


@pytest.mark.parametrize("split", [{}, {"cv": 3}], ids=["validation", "folds"])
@pytest.mark.parametrize("how", ["temperature", "isotonic"])
def test_several_classes_are_calibrated(how: str, split: dict[str, Any], tmp_path: Path) -> None:
    plain = trained(tmp_path / "plain", "none", split=split)
    run = trained(tmp_path / "run", how, split=split)
    assert run.metrics["log_loss"] < plain.metrics["log_loss"] - 0.5
    assert run.metrics["accuracy"] > plain.metrics["accuracy"] - 0.03
    rows = run.predictions
    columns = [f"probability_{label}" for label in run.goal.labels]
    np.testing.assert_allclose(rows[columns].sum(axis=1), 1)
    if not split:
        assert run.metrics["log_loss"] == pytest.approx(log_loss(rows["target"], rows[sorted(columns)]), abs=1e-9)


@pytest.mark.parametrize("how", ["temperature", "isotonic"])
def test_the_exported_model_calibrates_on_every_road(how: str, tmp_path: Path) -> None:
    model = trained(tmp_path / "run", how).model
    unseen = FRAME.drop(columns="kind").head(40)
    expected = model.predict_proba(unseen)
    assert model.decision.calibration is not None
    assert model.decision.calibration.method == how
    found = model.scorer().predict_proba(pa.Table.from_pandas(unseen).to_pylist())
    np.testing.assert_array_equal(found, expected)
    untrusted = gp.load_model(model.folder, untrusted=True)
    np.testing.assert_allclose(untrusted.predict_proba(unseen), expected, rtol=1e-12)
    assert model.verify().passed


def test_a_calibration_that_makes_the_log_loss_worse_is_not_used(tmp_path: Path) -> None:
    """Isotonic maps of 60 rows are steps with probabilities of 0 and 1."""
    few = FRAME.sample(300, random_state=1)
    run = gp.Pipeline(
        few[["a", "b", "kind"]], target="kind", models=["logistic_regression"], report={"enabled": False},
        evaluate={"calibrate": "isotonic", "importance": False},
    ).run(tmp_path / "run")  # fmt: skip
    assert run.model.decision.calibration is None
    (warning,) = [note.text for note in run.timeline.all_notes("warning") if "calibrate" in note.text]
    assert warning.startswith("calibrate: isotonic is not used: the log loss of held-out rows is")


def test_sigmoid_for_several_classes_has_no_effect_and_warns(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", "sigmoid")
    assert run.model.decision.calibration is None
    warnings = [note.text for note in run.timeline.all_notes("warning")]
    assert any("sigmoid has no effect; it is for two classes; for more, use temperature" in text for text in warnings)


@pytest.mark.parametrize("evaluate", [{"calibrate": "sigmoid"}, {"threshold": "best_f1"}, {"calibrate": "temperature"}])
def test_a_fold_that_follows_rows_of_one_class_is_evaluated_as_it_is(evaluate: dict[str, Any], tmp_path: Path) -> None:
    rows = FRAME.head(400).assign(day=range(400))
    rows["kind"] = np.where(rows["a"] > 0, "high", "low")
    rows.loc[100:199, "kind"] = "low"  # all test rows of the first fold
    settings: dict[str, Any] = {"split": {"time": "day", "cv": 3}, "evaluate": evaluate, "report": {"enabled": False}}
    run = gp.Pipeline(rows, target="kind", models=["logistic_regression"], **settings).run(tmp_path / "run")
    warnings = [note.text for note in run.timeline.all_notes("warning")]
    assert "fold 2: no calibration or threshold is learned: all 100 held-out rows have the same class" in warnings
    assert sum("same class" in text for text in warnings) == 1
    second = run.predictions[run.predictions["fold"] == 2]
    assert ((second["probability_low"] >= 0.5) == (second["prediction"] == "low")).all()
