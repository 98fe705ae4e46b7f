"""Tests of explanations of models: folding to input columns, additivity, outputs and files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, softmax

import gpupipe as gp
from gpupipe.artifact import ArtifactReader
from gpupipe.config import parse_config
from gpupipe.errors import ConfigError, DataError, SchemaError
from gpupipe.inference.explanation.compute import recorded_matrix
from gpupipe.inference.explanation.explanation import Explanation
from gpupipe.inference.explanation.tables import contribution_table
from gpupipe.inference.scoring import explained_files as files
from gpupipe.inference.scoring.explained_files import explain_file
from gpupipe.inference.scoring.local import score
from gpupipe.inference.scoring.outputs import TableWriter
from gpupipe.inference.scoring.scoring_settings import ScoringSettings
from gpupipe.io.chunks import chunk_stream
from gpupipe.pipeline.run import run_pipeline

N = 400
OWN = {"key": "who", "time": "day"}
FEATURES = [
    {"lag": OWN | {"columns": "a", "periods": 1}},
    {"aggregate": {"table": "orders", "time": "at", "as_of": "2025-01-01", "columns": {"spend": "sum"}}},
    {"arithmetic": {"product": ["a", "b"], "as": "ab"}},
    {"datetime_parts": {"columns": "day", "parts": ["month", "weekday"]}},
    {"text_counts": {"columns": "note"}},
    {"cross": {"columns": ["city", "plan"], "as": "deal"}},
    {"target_encode": {"columns": ["city", "deal"], "folds": 2}},
    {"one_hot": "plan"},
]
# The inputs of each feature by hand; the start of a name stands for all features of an op.
SOURCES = {
    "a_lag_1": {"history"}, "orders_spend_sum": {"orders"}, "ab": {"a", "b"}, "day_": {"day"}, "note": {"note"},
    "city_target": {"city"}, "deal_target": {"city", "plan"}, "plan=": {"plan"}, "a": {"a"}, "b": {"b"},
}  # fmt: skip
TARGETS: dict[str, Any] = {
    "binary": ({"target": "yes", "positive": "yes"}, {"xgboost": {"n_estimators": 8}}),
    "multiclass": ({"target": "group"}, {"hist_gradient_boosting": {"max_iter": 6}}),
    "quantile": (
        {"target": "amount", "task": "quantile", "quantiles": [0.1, 0.5, 0.9]}, {"xgboost": {"n_estimators": 6}}
    ),
    "several": ({"target": ["amount", "b2"]}, "ridge"),
    "mixed": ({"target": ["group", "yes"]}, {"xgboost": {"n_estimators": 4}}),
    "forest": ({"target": "yes", "positive": "yes"}, {"random_forest": {"n_estimators": 5, "max_depth": 4}}),
    "neighbors": ({"target": "amount"}, "knn"),
    "clusters": ({}, "kmeans"),
}  # fmt: skip


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "a": rng.normal(size=N), "b": rng.integers(0, 50, N), "city": rng.choice(["Bern", "Rom", "Oslo"], N),
        "plan": rng.choice(np.array(["basic", "plus", None]), N),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(N), unit="D"),
    })  # fmt: skip
    frame.loc[rng.random(N) < 0.1, "a"] = np.nan
    score = frame["a"].fillna(0) + 2 * (frame["plan"] == "plus") + rng.normal(0, 0.5, N)
    frame["yes"] = np.where(score > 1, "yes", "no")
    frame["group"] = np.where(frame["city"] == "Rom", "r", np.where(score > 0.5, "s", "t"))
    frame["amount"] = 3 * score + frame["b"]
    frame["b2"] = frame["b"] * frame["a"].fillna(0)
    return frame


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that trains a model of `TARGETS` once and returns its run directory."""
    folder, frame = tmp_path_factory.mktemp("explain"), table()

    def train(name: str) -> Path:
        source, model = TARGETS[name]
        if not (folder / name).exists():
            targets = np.atleast_1d(source.get("target", [])).tolist()
            drop = [column for column in ("yes", "group", "amount", "b2") if column not in targets]
            settings = {
                "source": {"frame": frame, "drop": drop, **source}, "models": [model], "device": "cpu",
                "report": {"enabled": False}, "evaluate": {"importance": False},
            }  # fmt: skip
            run_pipeline(parse_config(settings), folder / name)
        return folder / name

    return train


def test_features_are_folded_to_their_inputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    frame = table().drop(columns=["group", "amount", "b2"])
    frame["who"], frame["note"] = rng.integers(0, 40, N).astype(str), [f"note {'x' * (i % 7)}" for i in range(N)]
    orders = pd.DataFrame({
        "who": rng.integers(0, 40, 900).astype(str), "spend": rng.gamma(2.0, 10.0, 900),
        "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, 900), unit="D"),
    })  # fmt: skip
    frame.to_parquet(tmp_path / "rows.parquet")
    orders.to_parquet(tmp_path / "orders.parquet")
    settings = {
        "source": {"path": str(tmp_path / "rows.parquet"), "target": "yes", "positive": "yes"},
        "tables": {"orders": {"path": str(tmp_path / "orders.parquet"), "on": "who", "cardinality": "one_to_many"}},
        "features": FEATURES, "models": ["logistic_regression"], "device": "cpu", "report": {"enabled": False},
        "evaluate": {"importance": False},
    }  # fmt: skip
    model = run_pipeline(parse_config(settings), tmp_path / "run").model
    rows, given = frame.drop(columns="yes"), {"orders": orders}
    found = model.explain(rows, given)
    X, background = (
        model.transform(rows, given).astype("f8"),
        recorded_matrix(ArtifactReader(model.folder), len(model.feature_names)).astype("f8"),
    )
    of_features = (X - background.mean(axis=0)) * model.estimator.estimator.coef  # of a linear model, by definition
    expected = {name: np.zeros(N) for name in found.columns}
    for j, name in enumerate(model.feature_names):
        sources = SOURCES[max((key for key in SOURCES if name.startswith(key)), key=len, default=name)]
        for source in sources:
            expected[source] += of_features[:, j] / len(sources)
    assert set(found.columns) == set().union(*SOURCES.values())
    for column, values in found.to_frame().items():
        np.testing.assert_allclose(values, expected[str(column)], atol=1e-6)
    assert {frozenset(each) for each in found.divided.values()} == {frozenset("ab"), frozenset(["city", "plan"])}
    explain_file(
        tmp_path / "run",
        str(tmp_path / "rows.parquet"),
        tmp_path / "out.parquet",
        ScoringSettings(device="cpu", tables={"orders": str(tmp_path / "orders.parquet")}),
    )
    written = pq.read_table(tmp_path / "out.parquet")
    np.testing.assert_array_equal(written["contribution_history"], found.to_frame()["history"])


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "clusters"])
def test_base_and_contributions_sum_to_the_prediction(trained: Callable[[str], Path], name: str) -> None:
    model, rows = gp.load_model(trained(name), "cpu"), table().head(4 if name == "neighbors" else 60)
    found = model.explain(rows)
    if name == "binary":
        np.testing.assert_allclose(expit(found.margins), model.predict_proba(rows)[:, 1], atol=1e-5)
        pairs = model.explain(rows, interactions=True).interactions
        assert pairs is not None
        np.testing.assert_allclose(pairs.sum(axis=2), found.values, atol=1e-5)
        np.testing.assert_allclose(pairs, pairs.transpose(0, 2, 1), atol=1e-9)
    elif name == "forest":
        np.testing.assert_allclose(found.margins, model.predict_proba(rows)[:, 1], atol=1e-6)
    elif name == "multiclass":
        assert found.outputs == ("r", "s", "t")
        np.testing.assert_allclose(softmax(found.margins, axis=1), model.predict_proba(rows), atol=1e-6)
    elif name == "quantile":
        np.testing.assert_allclose(np.sort(found.margins, axis=1), model.predict(rows), rtol=1e-5)
    elif name == "mixed":
        assert found.outputs == ("group_r", "group_s", "group_t", "yes")
        of_group, of_yes = model.predict_proba(rows)
        np.testing.assert_allclose(softmax(found.margins[:, :3], axis=1), of_group, atol=1e-5)
        np.testing.assert_allclose(expit(found.margins[:, 3]), of_yes[:, 1], atol=1e-5)
    else:
        np.testing.assert_allclose(found.margins, model.predict(rows), rtol=1e-4)


def strongest(values: Any, names: Any, n: int) -> list[list[str]]:
    return [[names[j] for j in sorted(range(len(row)), key=lambda j: (-abs(row[j]), j))[:n]] for row in values]


@pytest.mark.parametrize("name", ["binary", "multiclass", "quantile", "mixed"])
def test_reasons_are_the_strongest_contributions_to_the_prediction(trained: Callable[[str], Path], name: str) -> None:
    model, rows = gp.load_model(trained(name), "cpu"), table().head(50)
    found, written = model.explain(rows), model.predict_table(rows, explain=2).to_pandas()
    of = {"quantile": "quantile_0.5", "binary": None}
    frames = {output: found.to_frame(output).to_numpy() for output in found.outputs or (None,)}
    for target in ("_group", "_yes") if name == "mixed" else ("",):
        labels = written[f"prediction{target}"] if name != "quantile" else [""] * len(rows)
        outputs = [
            of.get(name, "yes" if target == "_yes" else f"{target[1:]}{'_' * bool(target)}{each}") for each in labels
        ]
        values = np.stack([frames[output][i] for i, output in enumerate(outputs)])
        expected = strongest(values, found.columns, 2)
        assert written[[f"reason{target}_1", f"reason{target}_2"]].to_numpy().tolist() == expected
        for i, (first, _) in enumerate(expected):
            value, text = rows[first].iloc[i], written[f"reason{target}_1_value"][i]
            assert pd.isna(text) if pd.isna(value) else str(value)[:6] == text[:6]
            assert written[f"reason{target}_1_contribution"][i] == values[i][found.columns.index(first)]


def test_models_without_explanations_are_refused_before_any_row_is_read(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    path, out = trained("clusters"), tmp_path / "out.csv"
    for attempt in (
        lambda: gp.load_model(path).explain("no such file.csv"),
        lambda: gp.load_model(path).predict_table("no such file.csv", explain=1),
        lambda: score(path, "no such file.csv", out, ScoringSettings(explain=1)),
        lambda: explain_file(path, "no such file.csv", out),
    ):
        with pytest.raises(DataError) as error:
            attempt()
        assert error.value.exit_code == 5 and not out.exists()
    with pytest.raises(ConfigError):
        gp.load_model(trained("several")).explain(table().head(2), interactions=True)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "folder"])
def test_files_in_chunks_have_the_explanation_of_their_rows(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Some cells have line breaks, and a column of whole numbers has a fraction in the last row."""
    monkeypatch.setattr(chunk_stream, "CHUNK_BYTES", 3000)
    monkeypatch.setattr(files, "SLICE_ROWS", 37)
    frame = table().drop(columns=["yes", "group", "amount", "b2"])
    frame["id"] = [f"{i:04d}" for i in range(N)]
    frame["note"] = ['a "quoted"\ncell, of two lines' if i % 3 else "x" for i in range(N)]
    frame["b"] = frame["b"].where(frame.index < N - 1, 7.5)
    data, out = tmp_path / f"rows.{kind}", tmp_path / ("größe.csv" if kind == "csv" else "größe.parquet")
    if kind == "folder":
        for city, part in frame.groupby("city"):
            (data / f"city={city}").mkdir(parents=True)
            part.drop(columns="city").to_parquet(data / f"city={city}" / "part.parquet")
        frame = frame.sort_values("city", kind="stable", ignore_index=True)
    elif kind == "parquet":
        frame.to_parquet(data, row_group_size=61)
    else:
        text = frame.assign(b=frame["b"].map("{:g}".format)).to_csv(index=False).encode()
        data.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
    summary = explain_file(
        trained("multiclass"), str(data), out, ScoringSettings(device="cpu", ids=["id"], keep=["note", "b"])
    )
    assert summary.report is not None and summary.n_rows == summary.report.to_json()["n_rows"] == N
    written = pd.read_csv(out, dtype={"id": str}) if kind == "csv" else pq.read_table(out).to_pandas()
    for name in ("id", "note", "b"):
        assert written[name].tolist() == frame[name].tolist()
    expected = contribution_table(gp.load_model(trained("multiclass"), "cpu").explain(frame)).to_pandas()
    np.testing.assert_allclose(written[list(expected)], expected, atol=1e-12)
    assert list(written)[3:7] == ["prediction", "probability_r", "probability_s", "probability_t"]


def test_an_empty_file_has_the_columns_of_any_other(trained: Callable[[str], Path], tmp_path: Path) -> None:
    schemas = []
    for n in (0, 3):
        table().head(n).to_parquet(tmp_path / "rows.parquet")
        explain_file(
            trained("binary"),
            str(tmp_path / "rows.parquet"),
            tmp_path / "out.parquet",
            ScoringSettings(device="cpu"),
            interactions=True,
        )
        schemas.append(pq.read_schema(tmp_path / "out.parquet"))
    assert schemas[0].names == schemas[1].names and "interaction_a_x_city" in schemas[0].names


def test_names_that_clash_are_refused(trained: Callable[[str], Path], tmp_path: Path) -> None:
    rows, out = table().head(3).assign(margin=1, reason_1_value=2), tmp_path / "out.csv"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    path, data = trained("binary"), str(tmp_path / "rows.csv")
    with pytest.raises(ConfigError):
        explain_file(path, data, out, ScoringSettings(keep=["margin"]))
    with pytest.raises(ConfigError):
        score(path, data, out, ScoringSettings(keep=["reason_1_value"], explain=1))
    score(path, data, out, ScoringSettings(keep=["reason_1_value"]))
    values, base = np.zeros((1, 2, 2)), np.zeros(2)
    found = Explanation(("b_c", "c"), values, base, ("a", "a_b"), "score", "exact trees")
    with pytest.raises(ConfigError):
        contribution_table(found)


def test_rules_are_enforced_on_all_rows_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SLICE_ROWS", 5)
    frame = table().drop(columns=["group", "amount", "b2"]).assign(id=range(N))
    settings = {
        "source": {"frame": frame, "target": "yes", "drop": ["id"]}, "models": ["logistic_regression"],
        "data": {"id": {"unique": True}, "b": {"range": [0, 40], "otherwise": "warn"}}, "device": "cpu",
        "report": {"enabled": False}, "evaluate": {"importance": False},
    }  # fmt: skip
    path = run_pipeline(parse_config(settings), tmp_path / "run").path
    frame.to_parquet(tmp_path / "rows.parquet")
    notes: list[str] = []
    explain_file(path, str(tmp_path / "rows.parquet"), tmp_path / "out.csv", ScoringSettings(log=notes.append))
    assert len(notes) == 1
    frame.assign(id=np.arange(N) % (N - 1)).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(SchemaError):
        explain_file(path, str(tmp_path / "rows.parquet"), tmp_path / "again.csv")
    assert not (tmp_path / "again.csv").exists()


def test_a_kept_column_with_another_type_in_later_rows_is_refused(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = iter([pa.table({"x": [1]}), pa.table({"x": ["text"]})])
    writer = TableWriter(tmp_path / "out.parquet", safe_csv=False)
    with pytest.raises(SchemaError), writer:
        for each in tables:
            writer.write(each)
    assert not (tmp_path / "out.parquet").exists()
