"""Tests of ``gpupipe explain`` and ``gpupipe predict --explain``: output, summary, exit codes and messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpupipe.config import parse_config
from gpupipe.pipeline.run import run_pipeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table, and the runs of trees, a linear model, clusters, and a model of events."""
    path, rng = tmp_path_factory.mktemp("explain"), np.random.default_rng(0)
    frame = pd.DataFrame(
        {"id": [f"{i:03d}" for i in range(200)], "age": rng.integers(18, 80, 200), "plan": ["a", "b"] * 100}
    )
    frame["left"] = np.where(frame["age"] + 20 * (frame["plan"] == "a") > 60, "yes", "no")
    frame.to_csv(path / "t.csv", index=False)
    orders = pd.DataFrame({
        "who": rng.integers(0, 30, 600), "spend": rng.gamma(2.0, 9.0, 600),
        "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 150, 600), unit="D"),
    })  # fmt: skip
    orders.to_parquet(path / "orders.parquet")
    common = {"report": {"enabled": False}, "device": "cpu", "evaluate": {"importance": False}}
    rows = {"path": str(path / "t.csv"), "id": "id"}
    for name, model in {"trees": {"xgboost": {"n_estimators": 5}}, "linear": "logistic_regression"}.items():
        run_pipeline(parse_config({"source": {**rows, "target": "left"}, "models": [model], **common}), path / name)
    clusters = {"source": {**rows, "drop": ["left"]}, "models": ["kmeans"]}
    run_pipeline(parse_config({**clusters, **common}), path / "clusters")
    table = {"path": str(path / "orders.parquet"), "on": {"left": "customer", "right": "who"}, "time": "at"}
    label = {"none": "orders", "within": "15d"}
    entities = {"table": "orders", "as_of": ["2024-03-01", "2024-04-01"], "label": label}
    events = {
        "source": {"entities": entities, "target": "left"},
        "tables": {"orders": {**table, "cardinality": "one_to_many"}},
        "features": [{"rfm": {"table": "orders", "amount": "spend"}}], "models": ["logistic_regression"],
        "split": {"time": "as_of", "cutoff": "2024-04-01"},
    }  # fmt: skip
    run_pipeline(parse_config({**events, **common}), path / "events")
    return path


def test_the_output_has_identifiers_predictions_and_contributions(gpupipe, folder: Path, tmp_path: Path) -> None:
    done = gpupipe(
        "explain", folder / "trees", folder / "t.csv", "-o", "out.csv", "--interactions", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 200
    found = pd.read_csv(tmp_path / "out.csv", dtype={"id": str})
    assert list(found) == [
        "id", "prediction", "probability_no", "probability_yes", "base", "margin", "contribution_age",
        "contribution_plan", "interaction_age_x_plan",
    ]  # fmt: skip
    total = found["base"] + found["contribution_age"] + found["contribution_plan"]
    np.testing.assert_allclose(total, found["margin"], atol=1e-9)
    np.testing.assert_allclose(1 / (1 + np.exp(-found["margin"])), found["probability_yes"], atol=1e-5)
    assert found["id"][0] == "000" and found["interaction_age_x_plan"].abs().max() > 0


def test_an_untrusted_model_has_the_same_output(gpupipe, folder: Path, tmp_path: Path) -> None:
    for name, more in {"one.csv": [], "other.csv": ["--untrusted", "--limit", "memory=2GiB"]}.items():
        done = gpupipe("explain", folder / "linear", folder / "t.csv", "-o", name, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "other.csv").read_bytes()


def test_entities_are_explained_without_an_input(gpupipe, folder: Path, tmp_path: Path) -> None:
    given = ["--table", f"orders={folder / 'orders.parquet'}", "--as-of", "2024-05-01", "-o", "out.parquet"]
    done = gpupipe("explain", folder / "events", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found)[:2] == ["customer", "as_of"] and found["customer"].is_monotonic_increasing
    contributions = found.filter(like="contribution_")
    assert list(contributions) == ["contribution_orders"]
    np.testing.assert_allclose(found["base"] + found["contribution_orders"], found["margin"])


@pytest.mark.parametrize(
    ("command", "model", "options", "code"),
    [
        ("explain", "clusters", ["t.csv"], 5),
        ("predict", "clusters", ["t.csv", "--explain", "2"], 5),
        ("predict", "clusters", ["t.csv", "--explain", "2", "--cluster", "local"], 5),
        ("predict", "trees", ["t.csv", "--explain", "0"], 2),
        ("explain", "linear", ["t.csv", "--interactions"], 2),
        ("explain", "trees", ["absent.csv"], 5),
        ("explain", "trees", [], 2),
        ("explain", "trees", ["--as-of", "2024-05-01"], 2),
        ("explain", "events", ["--as-of", "2024-05-01", "--keep", "customer"], 2),
        ("explain", "trees", ["t.csv", "--limit", "memory=2GiB"], 2),
        ("explain", "trees", ["t.csv", "--id", "id", "--no-id"], 2),
    ],
)
def test_errors_have_an_exit_code_and_leave_no_output(
    gpupipe, folder: Path, tmp_path: Path, command: str, model: str, options: list[str], code: int
) -> None:
    rows = [str(folder / each) if each.endswith(".csv") else each for each in options]
    name = "out" if "--cluster" in options else "out.csv"
    done = gpupipe(command, folder / model, *rows, "-o", name, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr and list(tmp_path.iterdir()) == []
