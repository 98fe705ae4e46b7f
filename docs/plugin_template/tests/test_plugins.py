"""Each plug-in by itself, and all of them in a run."""

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from gpupipe_template.metrics import lift_10
from gpupipe_template.models import CentroidClassifier, NearestCentroid
from gpupipe_template.readers import read_ltsv

import gpupipe as gp

EXAMPLE = Path(__file__).parents[1] / "example.yaml"


def write_customers(path: Path, n_rows: int = 300) -> None:
    """Write customers of two kinds: those who call at night leave."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for _ in range(n_rows):
            left = rng.random() < 0.4
            day, night = rng.poisson((9, 3) if not left else (3, 9))
            plan, answer = rng.choice(["basic", "plus"]), "yes" if left else "no"
            file.write(f"calls_day:{day}\tcalls_night:{night}\tplan:{plan}\tleft:{answer}\n")


def test_shares_add_up_to_one() -> None:
    import pandas as pd

    frame = pd.DataFrame({"day": [1.0, 3.0, 0.0], "night": [3.0, 1.0, 0.0]})
    program = gp.FeatureProgram([{"shares": ["day", "night"]}], view="codes").set_output(transform="pandas")
    made = program.fit_transform(frame)
    assert made["day_share"].tolist()[:2] == [0.25, 0.75]
    assert made["night_share"].isna().tolist() == [False, False, True]


def test_the_model_is_the_same_after_its_arrays() -> None:
    X, y = np.array([[0.0, 0], [2, 0], [10, 10]]), np.array([0, 0, 1])
    fitted = CentroidClassifier(1.0).fit(X, y)
    assert fitted.centroids_.tolist() == [[1, 0], [10, 10]]
    again = NearestCentroid.from_arrays(NearestCentroid().to_arrays(fitted), "binary")
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    with pytest.raises(ValueError):
        NearestCentroid.from_arrays({"centroids": np.array([[np.nan]]), "sharpness": np.array(1.0)}, "binary")


def test_the_reader_fills_missing_labels_with_null() -> None:
    table = read_ltsv(io.BytesIO(b"name:Ann\tage:31\nname:Bob: the 2nd\n"))
    assert table.to_pylist() == [{"name": "Ann", "age": 31.0}, {"name": "Bob: the 2nd", "age": None}]


def test_lift_of_a_perfect_order() -> None:
    y = np.arange(100) < 20
    assert lift_10(y, np.linspace(1, 0, 100)) == pytest.approx(5)


def test_all_of_them_in_a_run(tmp_path: Path) -> None:
    write_customers(tmp_path / "customers.ltsv")
    shutil.copy(EXAMPLE, tmp_path)
    run = gp.Pipeline.from_yaml(tmp_path / EXAMPLE.name).run(tmp_path / "run", quiet=True)
    assert run.metrics["roc_auc"] > 0.9 and run.metrics["lift_10"] > 2
    rows = {"calls_day": [12, 1], "calls_night": [1, 12], "plan": ["plus", "basic"]}
    assert list(gp.load_model(run.path).predict(rows)) == ["no", "yes"]
