"""Targets that cannot be learned, and tables to score that do not match the training table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import load_config
from gpupipe.errors import DataError, GpupipeError, SchemaError
from gpupipe.inference.model import Model, load_model
from gpupipe.inference.scoring.local import score
from gpupipe.pipeline.run import run_pipeline
from gpupipe.timeline.timeline import Note, Stage

N = 120
CONFIG = """\
source: {{path: t.csv, target: y, schema: {{z: categorical}}}}
split: {split}
features:
  - impute: "@numeric"
  - standardize: "@numeric"
  - encode: "@categorical"
models: [{model}]
report: {{enabled: false}}
"""


def frame(**columns: Any) -> pd.DataFrame:
    row = np.arange(N)
    known = {"a": row % 17, "b": row % 13 / 3, "c": np.array(list("uvw"))[row % 3], "z": row % 5}
    return pd.DataFrame({**known, "y": np.where(row % 17 > 8, "yes", "no"), **columns})


def written(folder: Path, table: pd.DataFrame, split: str = "{}", model: str = "logistic_regression") -> Path:
    table.to_csv(folder / "t.csv", index=False)
    (folder / "c.yaml").write_text(CONFIG.format(split=split, model=model))
    return folder / "c.yaml"


@pytest.mark.parametrize(
    ("y", "split", "says"),
    [
        (["yes"] * N, "{}", "expected at least two values of the target 'y', found only 'yes'"),
        ([2.5] * N, "{}", "expected at least two values of the target 'y', found only 2.5"),
        ([None] * N, "{}", "the target 'y' is null in every row"),
        ([f"note {i}" for i in range(N)], "{}", "'y' is text"),
        (["rare", *"ab" * 59, "a"], "{}", "class 'rare' has a single row"),
        (["rare", *"ab" * 59, "a"], "{cv: 3}", "class 'rare' has 1 row; 3 folds need at least 3"),
        (["a"] * 100 + ["b"] * 20, "{shuffle: false, stratify: false}", "training rows have the same class"),
        (["a"] * 79 + ["b"] * 41, "{time: t, cv: 2}", r"fold 1 of 2: all 40 training rows have the same class \(a\)"),
        (["a", "b"] * 4 + ["a"] * 112, "{time: t, window: 20 rows, cv: 2}", r"fold 1 of 2: all 20 .* same class \(a\)"),
    ],
)
def test_an_unlearnable_target_is_refused_before_training(tmp_path: Path, y: list[Any], split: str, says: str) -> None:
    stages = refused_stages(written(tmp_path, frame(y=y, t=range(N)), split), tmp_path, says)
    assert set(stages) <= {"read", "split"}


@pytest.mark.parametrize(
    ("y", "model", "evaluate", "says"),
    [
        (["c"] + ["a", "b"] * 59 + ["b"], "linear_svc", "{}", "needs 3 training rows of each class; class 'c' has 1"),
        (["a", "b"] * 30 + ["a"] * 60, "gaussian_nb", "{calibrate: sigmoid}", r"all \d+ held-out rows have the same"),
        (["a", "b"] * 30 + ["a"] * 60, "gaussian_nb", "{threshold: best_f1}", r"all \d+ held-out rows have the same"),
        (range(N), "{ridge: {}, tune: {trials: 2, folds: 200}}", "{}", "too few for 200 folds"),
    ],
)  # fmt: skip
def test_rows_that_an_option_cannot_learn_from_are_refused_before_training(
    tmp_path: Path, y: Any, model: str, evaluate: str, says: str
) -> None:
    path = written(tmp_path, frame(y=list(y), t=range(N)), "{time: t}", model)
    path.write_text(f"{path.read_text()}evaluate: {evaluate}\n")
    assert set(refused_stages(path, tmp_path, says)) <= {"read", "split"}


def refused_stages(path: Path, folder: Path, says: str) -> list[str]:
    """Return the stages of a run that is refused."""
    stages = StageNames()
    with pytest.raises(DataError, match=says):
        run_pipeline(load_config(path), folder / "run", [stages])
    return stages.names


class StageNames:
    """Listener that lists the stages."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def started(self, stage: Stage) -> None:
        self.names.append(stage.name)

    def noted(self, note: Note) -> None: ...

    def ended(self, stage: Stage) -> None: ...


@pytest.mark.parametrize("kind", ["group", "time"])
def test_a_dropped_column_cannot_split_the_rows(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, frame(), f"{{{kind}: b}}")
    path.write_text(path.read_text().replace("target: y", "target: y, drop: [b]"))
    with pytest.raises(SchemaError) as caught:
        run_pipeline(load_config(path), tmp_path / "run")
    assert caught.value.where.endswith(f"split.{kind}")
    assert caught.value.fix.startswith("remove 'b' from source.drop")


def test_classes_absent_from_training_are_scored_with_a_warning(tmp_path: Path) -> None:
    y = [*"az" * 50, *["mid"] * 20]
    path = written(tmp_path, frame(y=y), "{shuffle: false, stratify: false}", "gaussian_nb")
    run = run_pipeline(load_config(path), tmp_path / "run")
    notes = [note.text for stage in run.timeline.stages for note in stage.notes]
    assert "class 'mid' occurs only in the test rows; no model can predict it" in notes
    predictions = pd.read_parquet(run.path / "predictions.parquet")
    assert (predictions["probability_mid"] == 0).all() and (predictions["target"] == "mid").sum() == 20


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Return a model of numbers and categories, one of them written as numbers."""
    folder = tmp_path_factory.mktemp("tables")
    return load_model(run_pipeline(load_config(written(folder, frame())), folder / "run").path)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t[["z", "c", "b", "a"]],
        lambda t: t.assign(more="x"),
        lambda t: t.assign(z=t["z"].astype(str)),
        lambda t: t.assign(z=t["z"].astype(float)),
        lambda t: t.assign(a=t["a"].astype(str), b=t["b"].map(repr)),
        lambda t: t.assign(c=t["c"].astype("category")),
    ],
)
def test_equal_values_of_other_types_are_predicted_alike(model: Model, change: Any) -> None:
    table = frame().drop(columns="y")
    np.testing.assert_array_equal(model.predict_proba(change(table)), model.predict_proba(table))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.drop(columns="b"), "the model needs a column that is not in the data: b"),
        (
            lambda t: t.assign(a=["oops" if i == 7 else "1" for i in range(N)]),
            "expected a number in column 'a'; found 'oops' in data row 7",
        ),
        (lambda t: t.assign(a=pd.Timestamp("2024-01-01")), "expected a number in column 'a'; found times"),
        (lambda t: pd.concat([t, t[["a"]]], axis=1), "'a'"),
    ],
)
def test_tables_of_other_columns_or_values_are_refused(model: Model, change: Any, says: str) -> None:
    with pytest.raises((SchemaError, DataError), match=says):
        model.predict(change(frame()))


@pytest.mark.filterwarnings("ignore::gpupipe.PredictionWarning")
@pytest.mark.parametrize("change", [{"a": np.nan}, {"c": None}, {"c": "never seen"}, {"z": 99}, {"b": np.inf}])
def test_nulls_and_unseen_levels_are_scored(model: Model, change: dict[str, Any]) -> None:
    assert np.isfinite(model.predict_proba(frame(**change))).all()


def test_a_table_without_rows_gives_predictions_without_rows(model: Model, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("a,b,c,z\n")
    assert score(model.folder, str(tmp_path / "none.csv"), tmp_path / "scores.csv").n_rows == 0
    assert (tmp_path / "scores.csv").read_text().startswith('"prediction"')
    (tmp_path / "lacks.csv").write_text("a,b\n")
    with pytest.raises(SchemaError, match="not in the data: c, z"):
        score(model.folder, str(tmp_path / "lacks.csv"), tmp_path / "scores.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(GpupipeError, match="there are no rows"):
        score(model.folder, str(tmp_path / "empty.csv"), tmp_path / "scores.csv")
