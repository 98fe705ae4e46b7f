"""Custom scikit-learn estimators: the file that builds them, their export, and errors."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
import yaml
from pydantic import ValidationError
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.config import load_config, parse_config
from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.models import early_refusal, fit
from gpupipe.models.scikit_learn.settings.estimator import Estimator
from gpupipe.models.scikit_learn.skops import read_skops, write_skops
from gpupipe.pipeline.run import run_pipeline
from gpupipe.random_streams import derive_seed
from gpupipe.training.checkpoints.run_checkpoints import RunCheckpoints, TrainingCheckpoints
from tests.models.folder_files import load_fitted

HEAD = """\
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import *
from sklearn.feature_selection import SelectKBest
from sklearn.isotonic import IsotonicRegression
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import *
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, QuantileTransformer, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
"""


def model_of(folder: Path, body: str, **settings: Any) -> Estimator:
    """Return the model whose function has this body."""
    (folder / "my_models.py").write_text(f"{HEAD}def make(**params):\n    {body}\n")
    return Estimator(use=f"{folder}/my_models.py:make", **settings)


GOOD = {
    "binary": [
        "return ExtraTreesClassifier(20, max_depth=5)",
        "return make_pipeline(StandardScaler(copy=False), PolynomialFeatures(2), LogisticRegression(C=0.01))",
        "return VotingClassifier([('a', LogisticRegression()), ('b', ExtraTreesClassifier(9))], voting='soft')",
        "return StackingClassifier([('a', LogisticRegression()), ('b', DecisionTreeClassifier(max_depth=2))])",
        "return CalibratedClassifierCV(DecisionTreeClassifier(max_depth=3), method='isotonic', cv=3)",
        "return BaggingClassifier(LogisticRegression(), 5, max_samples=0.5)",
        "return AdaBoostClassifier(n_estimators=9)",
        "return make_pipeline(SelectKBest(k=3), ExtraTreesClassifier(3))",
    ],
    "multiclass": [
        "return make_pipeline(QuantileTransformer(n_quantiles=20), SelectKBest(k=5), LinearDiscriminantAnalysis())",
        "return SGDClassifier(loss='log_loss')",
        "return MLPClassifier((8,), max_iter=500)",
    ],
    "regression": [
        "return TransformedTargetRegressor(Ridge(), transformer=StandardScaler())",
        "return KernelRidge(alpha=10.0)",
        "return TweedieRegressor(power=1.5)",
        "return BayesianRidge()",
    ],
}


@pytest.mark.parametrize(("task", "body"), [(task, body) for task, bodies in GOOD.items() for body in bodies])
def test_it_predicts_as_without_gpupipe_and_so_does_its_file(
    tables: dict, tmp_path: Path, task: str, body: str
) -> None:
    data = tables[task]
    before = data.X.copy()
    model = model_of(tmp_path, body)
    fitted = fit(model, data.X, data.y, data.context)
    np.testing.assert_array_equal(data.X, before)  # the matrix is another model's too
    names: dict[str, Any] = {}
    exec((tmp_path / "my_models.py").read_text(), names)
    alone = names["make"]()
    unset = [name for name, value in alone.get_params().items() if value is None and name.endswith("random_state")]
    alone.set_params(**dict.fromkeys(unset, derive_seed(data.context.seed, "model")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of trainings that end early, as ours does
        alone.fit(np.ascontiguousarray(data.X), data.y if task == "regression" else data.y.astype(int))
    rows = data.X_test.copy(order="F")
    (got,) = fitted.predict(rows).arrays.values()
    np.testing.assert_array_equal(rows, data.X_test)
    X_test = np.ascontiguousarray(data.X_test)
    if task == "regression":
        expected = alone.predict(X_test)
    else:
        expected = alone.predict_proba(X_test)[:, 1] if task == "binary" else alone.predict_proba(X_test)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    loaded = load_fitted(tmp_path, fitted.save(tmp_path))
    np.testing.assert_array_equal(next(iter(loaded.predict(data.X_test).arrays.values())), got)
    loaded.importances()


@pytest.mark.parametrize(
    ("task", "body", "message"),
    [
        ("binary", "return SVC(probability=True)", r"SVC cannot be exported: .*sklearn\.svm\._classes\.SVC"),
        (
            "binary",
            "return make_pipeline(StandardScaler(), GradientBoostingClassifier())",
            "GradientBoostingClassifier",
        ),
        (
            "binary",
            "return make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression())",
            "cannot be exported",
        ),
        ("binary", "class Mine(LogisticRegression): pass\n    return Mine()", "cannot be exported"),
        ("binary", "return Ridge()", "expected a classifier for the task binary; the function returned Ridge"),
        ("regression", "return LogisticRegression()", "expected a regressor .* returned LogisticRegression"),
        ("binary", "return SGDClassifier()", "SGDClassifier has no predict_proba(?s:.*)CalibratedClassifierCV"),
        ("binary", "return LogisticRegression", "returned ABCMeta|returned type"),
        ("binary", "return 3", "expected an unfitted scikit-learn estimator; the function returned int"),
        ("binary", "return 1 / 0", r"make failed: ZeroDivisionError(?s:.*)my_models\.py:15"),
        (
            "binary",
            "return LogisticRegression(**params)",
            "make failed: TypeError: .*unexpected keyword argument 'depth'",
        ),
        ("regression", "return IsotonicRegression()", "IsotonicRegression cannot be exported"),
    ],
)
def test_unsupported_estimators_are_refused_before_any_row_is_read(
    tmp_path: Path, task: Any, body: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        model_of(tmp_path, body, params={"depth": 3}).require_ready(task)


def test_errors_found_only_in_training_are_reported_there(tables: dict, tmp_path: Path) -> None:
    data = tables["binary"]
    fails = model_of(tmp_path, "return LogisticRegression(solver='no such')")
    with pytest.raises(ConfigError, match=r"fit failed: .*'no such'"):
        fit(fails, data.X, data.y, data.context)
    hidden = model_of(tmp_path, "return StackingClassifier([('a', LogisticRegression())], RidgeClassifier())")
    with pytest.raises(ConfigError, match="StackingClassifier has no predict_proba"):
        fit(hidden, data.X, data.y, data.context)


def test_a_forest_with_a_tree_of_another_width_is_refused(tables: dict, tmp_path: Path) -> None:
    """A forest checks the width of rows once; with wider trees it would read out of bounds."""
    data = tables["binary"]
    fitted = fit(model_of(tmp_path, "return ExtraTreesClassifier(3)"), data.X, data.y, data.context)
    description = fitted.save(tmp_path)
    forest = read_skops((tmp_path / "estimator.skops").read_bytes(), "estimator.skops")
    forest.n_features_in_ = 2
    chosen = SelectKBest(k=2).fit(data.X, data.y)
    with pytest.raises(ArtifactError, match="could not be loaded again: a forest of 2 columns"):
        write_skops(make_pipeline(chosen, forest), tmp_path / "estimator.skops")
    skops.io.dump(make_pipeline(chosen, forest), tmp_path / "estimator.skops")
    with pytest.raises(ArtifactError, match="a forest of 2 columns has a tree of another number"):
        load_fitted(tmp_path, description)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("my_models.py", "expected file.py:function"),
        ("nowhere.py:make", "cannot read nowhere.py: No such file"),
        ("my_models.py:mak", "no function 'mak'(?s:.*)did you mean 'make'"),
        ("broken.py:make", "broken.py is not Python"),
    ],
)
def test_the_file_is_looked_at_and_not_run_when_the_configuration_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_models.py").write_text("raise SystemExit\ndef make(): pass\n")
    Path("broken.py").write_text("def make(:\n")
    assert Estimator(use="my_models.py:make").view == "dense"
    with pytest.raises(ValidationError, match=message):
        Estimator(use=use)


CONFIG = """\
source: {generate: churn, rows: 1200, target: Churn}
features: [{standardize: [tenure]}, {encode: "@categorical"}]
models:
  - estimator: {use: "my_models.py:make", params: {max_depth: 4}, view: codes}
    as: mine
report: {enabled: false}
"""


def test_a_run_exports_it_and_serves_without_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "my_models.py").write_text(
        HEAD + "def make(max_depth): return ExtraTreesClassifier(5, max_depth=max_depth)"
    )
    (folder / "c.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    run = run_pipeline(load_config(folder / "c.yaml"), tmp_path / "run")
    assert run.metrics["roc_auc"] > 0.6
    again = load_config(tmp_path / "run" / "config.yaml")
    assert again.models[0].params.view == "codes" and again.models[0].label == "mine"
    (folder / "my_models.py").unlink()
    assert gp.load_model(run.path).verify().passed


def test_another_file_makes_another_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("my_models.py")

    def key(text: str) -> str:
        path.write_text(text)
        config = parse_config(yaml.safe_load(CONFIG))
        return TrainingCheckpoints(RunCheckpoints(), "", config, choose("cpu"))._model_key(config.models[0]).name

    first = key("def make(max_depth): return 1\n")
    assert key("def make(max_depth): return 1\n") == first != key("def make(max_depth): return 2\n")


def test_a_device_falls_back_to_the_host(tmp_path: Path) -> None:
    refusal = early_refusal(model_of(tmp_path, "return 3"), "binary")
    assert refusal is not None and "trains on the host" in refusal.what
