"""A model of another package: in the export, on loading, and refused where its package is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gpupipe as gp
from gpupipe.backends import choose
from gpupipe.models import FitContext, fit, load_fitted
from gpupipe.models.files.model_files import ModelFiles

Install = Callable[..., Path]
SOURCE = """
import numpy as np
from gpupipe.plugins import PluginModel

class Slope:
    def __init__(self, penalty):
        self.penalty = penalty
    def fit(self, X, y, sample_weight=None):
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        A = (X.T * w) @ X + self.penalty * np.eye(X.shape[1])
        self.coef = np.linalg.solve(A, (X.T * w) @ y)
        return self
    def predict(self, X):
        return FACTOR * (X @ self.coef)

class SlopeModel(PluginModel):
    tasks = frozenset({"regression"})
    penalty: float = 1.0
    def make_estimator(self, task, seed, n_threads):
        return Slope(self.penalty)
    def to_arrays(self, estimator):
        return {"coef": estimator.coef}
    @classmethod
    def from_arrays(cls, arrays, task):
        made = Slope(0.0)
        made.coef = arrays["coef"]
        if made.coef.ndim != 1:
            raise ValueError("expected one coefficient for each column")
        return made

class Shrunk(PluginModel):
    tasks = frozenset({"regression"})
    def make_estimator(self, task, seed, n_threads):
        from sklearn.linear_model import BayesianRidge
        return BayesianRidge()

class NoFit(SlopeModel):
    def make_estimator(self, task, seed, n_threads):
        return object()

class WrongShape(SlopeModel):
    def make_estimator(self, task, seed, n_threads):
        made = Slope(self.penalty)
        made.predict = lambda X: X
        return made

class OneClass(SlopeModel):
    tasks = frozenset({"binary"})
    def make_estimator(self, task, seed, n_threads):
        made = Slope(self.penalty)
        made.predict_proba = lambda X: np.ones((len(X), 1))
        return made

class NoReader(PluginModel):
    tasks = frozenset({"regression"})
    def make_estimator(self, task, seed, n_threads):
        return Slope(1.0)
    def to_arrays(self, estimator):
        return {"coef": estimator.coef}

class PickledState(SlopeModel):
    def to_arrays(self, estimator):
        return {"model": np.array([estimator], dtype=object)}
"""
PLUGINS = {
    "gpupipe.models": {"slope": "pkg_m:SlopeModel", "shrunk": "pkg_m:Shrunk", "no_fit": "pkg_m:NoFit",
                       "pickled_state": "pkg_m:PickledState", "wrong_shape": "pkg_m:WrongShape",
                       "one_class": "pkg_m:OneClass", "no_reader": "pkg_m:NoReader"}
}  # fmt: skip


def source(factor: float = 1.0) -> str:
    return SOURCE.replace("FACTOR", str(factor))


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    return frame.assign(y=frame["a"] - 2 * frame["b"] + rng.normal(0, 0.1, 200))


@pytest.fixture
def run(install: Install, frame: pd.DataFrame, tmp_path: Path) -> Path:
    install("pkg-m", "1.0", PLUGINS, source())
    pipeline = gp.Pipeline(frame, target="y", models=["slope"], report={"enabled": False})
    return pipeline.run(tmp_path / "run", quiet=True).path


def test_its_predictions_are_the_formula_for_rows_alone_and_together(run: Path, frame: pd.DataFrame) -> None:
    model = gp.load_model(run)
    X = model.transform(frame)
    fitted = model.estimator.estimator.estimator
    np.testing.assert_allclose(model.predict(frame), X.astype(np.float64) @ fitted.coef, rtol=1e-5)
    scorer = gp.load_model(run).scorer("numpy")  # nothing is compiled
    rows: Any = frame.drop(columns="y").to_dict("records")[:5]
    assert [scorer.predict(row) for row in rows] == list(model.predict(frame[:5]))
    assert model.verify().passed


def test_the_manifest_has_its_package(run: Path) -> None:
    document = json.loads((run / "model" / "manifest.json").read_text())
    package = {"name": "slope", "distribution": "pkg-m", "version": "1.0"}
    assert document["plugins"] == [{"kind": "model", **package}]
    assert document["estimator"]["plugin"] == package
    card = (run / "model" / "README.md").read_text()
    assert "pkg-m 1.0" in card.partition("To predict:")[2].partition("\n")[0]


def test_without_its_package_it_is_refused_by_name(run: Path, uninstall: Callable[[str], None]) -> None:
    uninstall("pkg-m")
    for load in (gp.load_model, gp.load_scorer):
        with pytest.raises(gp.ConfigError) as error:
            load(run)
        assert "'slope' of pkg-m 1.0" in error.value.what and "pip install 'pkg-m==1.0'" in error.value.fix


def test_another_version_must_reproduce_the_recorded_outputs(run: Path, install: Install, frame: pd.DataFrame) -> None:
    before = gp.load_model(run).predict(frame)
    install("pkg-m", "1.1", PLUGINS, source())
    assert (gp.load_model(run).predict(frame) == before).all()
    install("pkg-m", "2.0", PLUGINS, source(1.01))
    with pytest.raises(gp.ArtifactError) as error:
        gp.load_model(run)
    assert "pkg-m 2.0" in error.value.what and "pip install 'pkg-m==1.0'" in error.value.fix


def test_a_plugin_of_the_same_name_in_another_package_is_not_it(
    run: Path, install: Install, uninstall: Callable[[str], None]
) -> None:
    uninstall("pkg-m")
    install("pkg-n", "1.0", {"gpupipe.models": {"slope": "pkg_n:SlopeModel"}}, source())
    with pytest.raises(gp.ConfigError) as error:
        gp.load_model(run)
    assert "pkg-m 1.0" in error.value.what and "pkg-n 1.0" in error.value.what


@pytest.mark.process
@pytest.mark.slow
def test_an_untrusted_model_does_not_import_it(run: Path) -> None:
    with pytest.raises(gp.ConfigError) as error:
        gp.load_model(run, untrusted=True)
    assert "untrusted" in error.value.what and "pkg-m 1.0" in error.value.what


def test_an_estimator_of_scikit_learn_needs_no_package(
    install: Install, uninstall: Callable[[str], None], frame: pd.DataFrame, tmp_path: Path
) -> None:
    install("pkg-m", "1.0", PLUGINS, source())
    pipeline = gp.Pipeline(frame, target="y", models=["shrunk"], report={"enabled": False})
    path = pipeline.run(tmp_path / "run", quiet=True).path
    uninstall("pkg-m")
    assert gp.load_model(path).verify().passed


class Files(ModelFiles):
    """The files of a folder, as an attacker may write them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        return self._folder

    def names(self) -> tuple[str, ...]:
        return tuple(path.name for path in self._folder.iterdir())

    def path(self, name: str) -> Path:
        return self._folder / name

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"plugin": None},
        {"plugin": {"name": "slope", "distribution": "x; rm -rf /", "version": "1"}},
        {"plugin": {"name": "../slope", "distribution": "pkg-m", "version": "1"}},
        {"plugin": {"name": ["slope"], "distribution": "pkg-m", "version": "1"}},
        {"task": "quantile"},
        {"feature_names": ["a", "b"]},
        {"arrays": {"coef": np.eye(2)}},
        {"arrays": {"check X": np.zeros((3, 3))}},
        {"arrays": {"check output": np.zeros(7)}},
    ],
    ids=lambda change: str(change)[:60],
)
def test_a_malformed_file_or_description_is_refused(
    install: Install, frame: pd.DataFrame, tmp_path: Path, change: dict[str, Any]
) -> None:
    install("pkg-m", "1.0", PLUGINS, source())
    fitted = fit_model("slope", frame)
    description = fitted.save(tmp_path / "m")
    load_fitted(Files(tmp_path / "m"), description)
    if "arrays" in change:
        with np.load(tmp_path / "m" / fitted.file) as arrays:
            np.savez(tmp_path / "m" / fitted.file, **{**arrays, **change["arrays"]})
    else:
        description |= change
    with pytest.raises(gp.ArtifactError):
        load_fitted(Files(tmp_path / "m"), description)


def fit_model(name: str, frame: pd.DataFrame, weight: Any = None, task: Any = None, **params: Any) -> Any:
    from gpupipe.models import MODELS

    X = np.asfortranarray(frame[list("abc")].to_numpy(np.float32))
    n_classes = 2 if task else 0
    context = FitContext(choose("cpu"), task or "regression", 0, n_classes, feature_names=tuple("abc"))
    y = frame["y"].to_numpy()
    return fit(MODELS.get(name)(**params), X, y.astype("int64") if task else y, context, sample_weight=weight)


def test_weights_count_rows(install: Install, frame: pd.DataFrame) -> None:
    install("pkg-m", "1.0", PLUGINS, source())
    weight = np.arange(200) % 3
    weighted = fit_model("slope", frame, weight=weight.astype(float), penalty=2.0)
    repeated = fit_model("slope", frame.loc[frame.index.repeat(weight)], penalty=2.0)
    np.testing.assert_allclose(weighted.estimator.estimator.coef, repeated.estimator.estimator.coef, rtol=1e-9)


@pytest.mark.parametrize("name", ["no_fit", "no_reader", "pickled_state", "wrong_shape", "one_class"])
def test_a_model_that_breaks_its_contract_is_named(install: Install, frame: pd.DataFrame, name: str) -> None:
    install("pkg-m", "1.0", PLUGINS, source())
    is_binary = name == "one_class"
    with pytest.raises(gp.ConfigError) as error:
        fit_model(name, frame.assign(y=frame["y"] > 0) if is_binary else frame, task="binary" if is_binary else None)
    assert "pkg-m 1.0" in error.value.what


def test_its_settings_can_be_given_from_python(install: Install, frame: pd.DataFrame) -> None:
    install("pkg-m", "1.0", PLUGINS, source())
    import pkg_m  # type: ignore[import-not-found]

    pipeline = gp.Pipeline(frame, target="y", models=[pkg_m.SlopeModel(penalty=3)])
    assert pipeline.config.models[0].label == "slope"
