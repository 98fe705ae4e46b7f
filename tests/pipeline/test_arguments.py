"""Arguments of the Python interface: errors and their messages, and the representations of its objects."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gpupipe as gp
from gpupipe.config import parse_config
from gpupipe.errors import ArtifactError, ConfigError, DeviceError
from gpupipe.features.ops.impute import Impute
from gpupipe.models import MODELS
from gpupipe.pipeline.api import pipeline as api
from gpupipe.pipeline.api.arguments import python_errors
from gpupipe.timeline.display import console

FRAME = pd.DataFrame({"age": [31.0, 45.0, None, 52.0] * 10, "plan": ["a", "b", "a", "c"] * 10, "left": [0, 1] * 20})
CHURN = Path(__file__).parents[2] / "configs" / "churn.yaml"


def pipeline(**more: Any) -> gp.Pipeline:
    return gp.Pipeline(FRAME, target="left", **more)


def test_every_section_of_a_configuration_is_an_argument() -> None:
    arguments = set(inspect.signature(gp.Pipeline).parameters)
    assert set(gp.Config.model_fields) <= arguments
    of_the_source = {"target", "positive", "task", "quantiles", "weight", "columns", "drop", "where", "schema"}
    assert arguments - set(gp.Config.model_fields) == of_the_source


def test_arguments_a_dict_and_a_file_are_equivalent(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        "source: {path: t.csv, target: left, drop: [id], schema: {plan: text}}\nseed: 3\n"
        "features: [{impute: {columns: [age]}}]\nmodels: [{xgboost: {max_depth: 3}}, ridge]\nsplit: {cv: 3}\n"
    )
    source = {"path": Path("t.csv"), "target": "left", "drop": ["id"], "schema": {"plan": "text"}}
    sections: dict[str, Any] = {
        "seed": np.int64(3), "features": [{"impute": {"columns": pd.Index(["age"])}}],
        "models": [{"xgboost": {"max_depth": 3}}, "ridge"], "split": {"cv": 3},
    }  # fmt: skip
    expected = gp.load_config(tmp_path / "pipeline.yaml")
    assert gp.Pipeline.from_dict({"source": source, **sections}).config == expected
    arguments: dict[str, Any] = {"target": "left", "drop": np.array(["id"]), "schema": {"plan": "text"}}
    assert gp.Pipeline("t.csv", **arguments, **sections).config == expected
    built = [MODELS.get("xgboost")(max_depth=3), "ridge"]
    typed = {**sections, "features": [Impute(columns=["age"])], "models": built}
    assert gp.Pipeline(Path("t.csv"), **arguments, **typed).config == expected


def test_all_errors_are_reported_together_by_path_without_yaml() -> None:
    with pytest.raises(ConfigError) as error:
        pipeline(
            device="gpux", features=[{"impute": {"columns": "age", "strategy": "mdian"}}, "standardize"],
            models=[{"xgbost": {}}, {"ridge": {"alhpa": 1}}, 5], split={"stratify": 3}, tables=FRAME,
            evaluate={"importance": "much"}, data=[1],
        )  # fmt: skip
    assert error.value.problems == (
        "device: expected 'auto', 'cpu' or 'gpu', got 'gpux'; did you mean 'gpu'?",
        "tables: expected a dict, got pandas.DataFrame",
        "data: expected a dict, got a list of 1",
        "split.stratify: expected True or False, got 3",
        "features[0].impute.strategy: expected 'median', 'mean', 'most_frequent' or 'constant', got 'mdian'; "
        "did you mean 'median'?",
        'features[1]: expected one op, such as {"standardize": ["age"]}',
        "models[0].xgbost: unknown model; did you mean 'xgboost'?",
        "models[1].ridge.alhpa: unknown key; did you mean 'alpha'?",
        "models[2]: expected a dict, got 5",
        "evaluate.importance: expected True or False or a dict, got 'much'",
    )


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a whole configuration": (lambda: gp.Pipeline({"source": {"path": "t.csv"}, "models": []}), "Pipeline.from_dict"),
    "a dict of columns": (lambda: gp.Pipeline({"age": [1, 2], "left": [0, 1]}), "a dict with age, left"),
    "a file of YAML": (lambda: gp.Pipeline(CHURN), "Pipeline.from_yaml"),
    "a number": (lambda: gp.Pipeline(3), "got 3"),
    "nothing": (lambda: gp.Pipeline(None), "got None"),
    "rows as rules": (lambda: gp.Pipeline(data=FRAME, target="left"), r"got None(.|\n)*where: source"),  # type: ignore[arg-type]
    "no path": (lambda: gp.Pipeline([]), "got an empty list"),
    "a list with a number": (lambda: gp.Pipeline(["t.csv", 3]), "got a list that contains 3"),
    "a pipeline": (lambda: gp.Pipeline(pipeline()), "got gpupipe.Pipeline"),
    "a target twice": (lambda: gp.Pipeline({"path": "t.csv", "target": "x"}, target="y"), "target: given twice"),
    "a Config and more": (lambda: gp.Pipeline(pipeline().config, seed=3), "takes no further argument; got seed"),
    "a frame as a file": (lambda: gp.Pipeline.from_yaml(FRAME), r"got pandas.DataFrame(.|\n)*gp.Pipeline\(frame"),  # type: ignore[arg-type]
    "a dict as a file": (lambda: gp.Pipeline.from_yaml({"source": {}}), "Pipeline.from_dict"),  # type: ignore[arg-type]
    "no file": (lambda: gp.load_config(None), "got None"),  # type: ignore[arg-type]
    "an override": (lambda: gp.Pipeline.from_yaml(CHURN, overrides="seed=3"), r"got 'seed=3'(.|\n)*\[\"seed=8\""),
    "overrides": (lambda: gp.Pipeline.from_dict({}, device="cpu", overrides=5), "expected a list of str; got 5"),  # type: ignore[arg-type]
    "a device": (lambda: gp.Pipeline.from_yaml(CHURN, device="cuda"), "'auto', 'cpu', 'gpu'; got 'cuda'"),  # type: ignore[arg-type]
    "a frame as a dict": (lambda: gp.Pipeline.from_dict(FRAME), "expected a dict of sections; got pandas.DataFrame"),  # type: ignore[arg-type]
    "an output": (lambda: pipeline().run(output=5), "expected a path; got 5\n  where: output"),  # type: ignore[arg-type]
    "processes": (lambda: pipeline().run(n_processes=0), "whole number of at least 1; got 0\n  where: n_processes"),
    "data": (lambda: pipeline().run(data=5), "got 5\n  where: data"),
    "a table": (lambda: pipeline().run(tables={"orders": FRAME}), "no table .orders.(.|\n)*no further tables"),
    "tables": (lambda: pipeline().features(tables=FRAME), "expected a dict of tables; got pandas.DataFrame"),  # type: ignore[arg-type]
    "a frame of a section": (lambda: gp.Pipeline({"frame": {"a": [1]}}), r"frame: expected a frame .*; got dict"),
    "a view": (lambda: pipeline().features(view="denze"), "did you mean 'dense'"),  # type: ignore[arg-type]
    "a library": (lambda: pipeline().tensors("torhc"), "did you mean 'torch'"),
    "a size": (lambda: pipeline().plan(assume_gpu="16GX"), "got '16GX'"),
    "a run": (lambda: gp.load_run(5), "expected the path of a run directory; got 5"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_types_are_refused_by_the_constructor(case: str) -> None:
    use, expected = WRONG[case]
    with pytest.raises(ConfigError, match=expected):
        use()


def test_advice_is_for_python_unless_there_is_a_file_to_change() -> None:
    yaml = "declare it: schema: {plan: categorical}, or run with --device cpu"
    python = "declare it: schema={'plan': 'categorical'}, or run with device=\"cpu\""
    for config, expected in (
        (pipeline().config, python),
        (gp.load_config(CHURN), yaml.replace("--device cpu", 'device="cpu"')),
    ):
        with pytest.raises(DeviceError) as error, python_errors(config):
            raise DeviceError("what", where="there", fix=yaml)
        assert error.value.fix == expected
        assert str(error.value) == f"what\n  where: there\n  to do: {expected}"


@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("run", "pipeline.api.pipeline.run_pipeline"),
        ("plan", "plan.run_plan.make_plan"),
        ("features", "pipeline.api.feature_access.open_job"),
        ("tensors", "pipeline.api.feature_access.make_tensors"),
    ],
)
def test_every_method_words_its_errors_for_python(
    method: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise ConfigError("no", fix="declare it: schema: {plan: text}")

    monkeypatch.setattr(f"gpupipe.{step}", refuse)
    with pytest.raises(ConfigError, match=r"declare it: schema=\{'plan': 'text'\}"):
        getattr(pipeline(output=tmp_path), method)()


def test_a_pipeline_shows_what_was_set_and_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pipe = pipeline(
        features=[{"impute": {"columns": "age", "strategy": "mean"}}], models={"ridge": {"alpha": 2}}, seed=4
    )
    assert repr(pipe) == "Pipeline('pipeline': pandas.DataFrame, 40 rows x 3 columns; target 'left'; 1 op; ridge)"
    shown = pipe._repr_html_()
    assert shown == (
        "<div><b>pipeline</b><pre>source: pandas.DataFrame, 40 rows x 3 columns\ntarget: left\nfeatures:\n"
        "  - impute: {columns: age, strategy: mean}\nmodels:\n  - ridge: {alpha: 2.0}\nseed: 4</pre></div>"
    )
    monkeypatch.setenv("TOKEN", "hunter2hunter2")
    (tmp_path / "c.yaml").write_text("name: <i>\nsource: {path: 'https://me:pw@host/${TOKEN}.csv', target: left}")
    secret = gp.Pipeline.from_yaml(tmp_path / "c.yaml")
    shown = secret._repr_html_()
    assert "hunter2" not in shown + repr(secret) and "pw" not in shown + repr(secret)
    assert "&lt;i&gt;" in shown and "<i>" not in shown


@pytest.mark.parametrize("is_interactive", [True, False])
def test_progress_is_shown_by_default_on_a_terminal(
    is_interactive: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api, "is_interactive", lambda: is_interactive)
    pipe = pipeline(models="logistic_regression", report={"enabled": False}, evaluate={"importance": False})
    pipe.run(tmp_path / "default")
    shown = capsys.readouterr().err
    assert ("train logistic_regression" in shown) == ("ROC AUC" in shown) == is_interactive
    pipe.run(tmp_path / "said", quiet=is_interactive)
    assert ("train logistic_regression" in capsys.readouterr().err) != is_interactive


def test_python_s_prompt_is_interactive_and_a_script_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not console.is_interactive()
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert console.is_interactive()


def test_a_run_is_opened_again_from_its_directory(churn_run: gp.Run, tmp_path: Path) -> None:
    run = gp.load_run(str(churn_run.path))
    assert repr(run) == repr(churn_run) and run._repr_html_() == churn_run._repr_html_()
    assert (run.metrics, run.document, run.config) == (churn_run.metrics, churn_run.document, churn_run.config)
    assert [e.validation for e in run.candidates] == [e.validation for e in churn_run.candidates]
    assert [stage["name"] for stage in run.plan()] == [stage["name"] for stage in churn_run.plan()]
    assert (run.goal.task, run.goal.labels, run.report()) == ("binary", ("No", "Yes"), churn_run.report())
    pd.testing.assert_frame_equal(run.predictions, churn_run.predictions)
    with pytest.raises(ArtifactError, match=r"config.yaml is missing(.|\n)*gp.load_model"):
        gp.load_run(churn_run.path / "model")
    (tmp_path / "config.yaml").write_text("")
    for content in ("{", "[]", '{"models": {}}'):
        (tmp_path / "metrics.json").write_text(content)
        with pytest.raises(ArtifactError, match=r"cannot read metrics\.json"):
            _ = gp.load_run(tmp_path).metrics
    with pytest.raises(ArtifactError, match=r"cannot read predictions\.parquet"):
        _ = gp.load_run(tmp_path).predictions


def test_importances_are_those_of_the_report(churn_run: gp.Run, tmp_path: Path) -> None:
    found = churn_run.importances
    assert list(found.columns) == ["column", "importance", "std"] and found.attrs == {"metric": "roc_auc"}
    assert found["importance"].is_monotonic_decreasing and found["column"].is_unique
    assert set(found["column"]) <= set(churn_run.model.inputs) and len(found) > 10
    page = churn_run.report().read_text()
    assert all(f"{value:.4f}" in page or f"{value:.3f}" in page for value in found["importance"].head(3))
    nothing = pipeline(models="logistic_regression", report={"enabled": False}, evaluate={"importance": False})
    empty = nothing.run(tmp_path / "run").importances
    assert len(empty) == 0 and list(empty.columns) == list(found.columns)


def test_a_dict_names_its_values_by_their_path() -> None:
    with pytest.raises(ConfigError) as error:
        parse_config({"source": {"path": FRAME, "taget": "left"}, "limits": {"time": None, "memory": "much"}})
    assert error.value.problems == (
        "source.taget: unknown key; did you mean 'target'?",
        "limits.memory: expected a size such as 20GiB or 500MB, got 'much'",
    )


Y = pd.Series([0, 1] * 20, name="left")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (FRAME["left"], "left"),
        (Y * 2 + 1, "left"),
        (Y.rename(None), "target"),
        (Y.rename("paid"), "paid"),
        (Y.to_numpy(), "target"),
        (Y.astype(bool).tolist(), "target"),
        (pa.array(Y), "target"),
        (pd.DataFrame({"left": Y, "right": Y}), ("left", "right")),
    ],
)
@pytest.mark.parametrize("library", [pd.DataFrame, pa.Table.from_pandas])
def test_values_of_the_target_are_accepted_for_a_frame(given: Any, name: Any, library: Callable[..., Any]) -> None:
    source = gp.Pipeline(library(FRAME), target=given).config.source
    assert source.target == name and source.frame is not None
    names = [name] if isinstance(name, str) else list(name)
    expected = given if isinstance(given, pd.DataFrame) else pd.DataFrame({names[0]: given})
    assert source.frame.table.select(names).to_pandas().to_numpy().tolist() == expected.to_numpy().tolist()
    assert set(source.frame.column_names) == {*FRAME.columns, *names}


def test_values_are_copied_and_weights_may_be_values() -> None:
    weights = np.arange(40.0)
    made = gp.Pipeline(FRAME, target="left", weight=weights).config.source
    weights[:] = 0
    assert made.weight == "weight" and made.frame is not None
    assert made.frame.table["weight"].to_pylist() == list(range(40))


@pytest.mark.parametrize(
    ("source", "given", "message"),
    [
        ("t.csv", Y, r"expected the name of a column of the source; got pandas.Series\n.*target\n.*target='left'"),
        (FRAME, Y[:7], "expected 40 values, one for each row of the source; got 7"),
        (FRAME, Y[::-1], r"another order than that of the frame\n.*\n.*target.loc\[frame.index\]"),
        (FRAME, np.ones((40, 2)), "expected one column; got an array of 2 dimensions"),
    ],
)
def test_values_that_are_not_those_of_the_rows_are_refused(source: Any, given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        gp.Pipeline(source, target=given)


@pytest.mark.parametrize(
    ("given", "expected"), [(0.2, {"test_size": 0.2}), (5, {"cv": 5}), (np.float64(0.4), {"test_size": 0.4})]
)
def test_a_number_is_short_for_a_split(given: Any, expected: dict[str, Any], tmp_path: Path) -> None:
    assert pipeline(split=given).config.split == pipeline(split=expected).config.split
    (tmp_path / "p.yaml").write_text(f"source: {{path: t.csv}}\nsplit: {given}\n")
    assert gp.load_config(tmp_path / "p.yaml").split == pipeline(split=expected).config.split


@pytest.mark.parametrize("given", [0, 1, 1.5, -3, True])
def test_other_numbers_are_refused_as_a_split(given: Any) -> None:
    with pytest.raises(ConfigError, match="split"):
        pipeline(split=given)


def test_names_that_are_not_texts_are_those_of_the_frame() -> None:
    frame = FRAME.set_axis([1, 2, 3], axis=1)
    named: dict[Any, Any] = {1: {"range": [0, 99]}}
    config = gp.Pipeline(frame, target=np.int64(3), split={"group": 2}, data=named).config
    assert (config.source.target, config.split.group, *config.data) == ("3", "2", "1")


def test_a_feature_program_gives_advice_in_python() -> None:
    with pytest.raises(ConfigError, match=r"declare schema=\{'age': 'categorical'\}"):
        gp.FeatureProgram([{"one_hot": "age"}]).fit(FRAME)
