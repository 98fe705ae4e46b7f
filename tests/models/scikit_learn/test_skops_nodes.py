"""Files of estimators of every allowed type, compared with those that skops writes."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import Birch, KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold, f_regression
from sklearn.isotonic import IsotonicRegression
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ARDRegression,
    BayesianRidge,
    ElasticNet,
    ElasticNetCV,
    GammaRegressor,
    HuberRegressor,
    Lars,
    Lasso,
    LassoCV,
    LassoLars,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    OrthogonalMatchingPursuit,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    RidgeCV,
    SGDClassifier,
    SGDRegressor,
    TheilSenRegressor,
    TweedieRegressor,
)
from sklearn.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    LabelBinarizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from gpupipe.errors import ArtifactError
from gpupipe.models.scikit_learn.skops import read_skops, write_skops
from gpupipe.models.scikit_learn.skops_types import ALLOWED

random = np.random.default_rng(5)
X = random.normal(size=(60, 4))
X[:, 0] = random.integers(0, 3, 60)
NUMBERS, CODES, CLASSES = np.abs(X[:, 1] + X[:, 2] ** 2) + 0.1, (X[:, 1] > 0).astype(int), X[:, 0].astype(int)
LOSSES = ("squared_error", "absolute_error", "gamma", "poisson", "quantile")
METRICS = ("minkowski", "euclidean", "manhattan", "chebyshev", "canberra", "braycurtis", "hamming")
STUMP = DecisionTreeClassifier(max_depth=1)
CLASSIFIERS = [
    HistGradientBoostingClassifier(max_iter=2, early_stopping=True, interaction_cst="no_interactions"),
    CalibratedClassifierCV(STUMP, method="isotonic", cv=2),
    CalibratedClassifierCV(LinearSVC(), method="sigmoid", cv=2),
    *(ExtraTreesClassifier(2), RandomForestClassifier(2), STUMP, ExtraTreeClassifier(max_depth=2)),
    *(LogisticRegression(), LogisticRegressionCV(cv=2, Cs=2), SGDClassifier(loss="log_loss")),
    *(GaussianNB(priors=[0.5, 0.5]), BernoulliNB(), KNeighborsClassifier(algorithm="kd_tree")),
    *(make_pipeline(MinMaxScaler(), kind()) for kind in (ComplementNB, MultinomialNB)),
    *(
        LinearDiscriminantAnalysis(),
        QuadraticDiscriminantAnalysis(),
        DummyClassifier(),
        AdaBoostClassifier(STUMP, n_estimators=2),
    ),
    BaggingClassifier(STUMP, 2, random_state=np.random.RandomState(7)),
    StackingClassifier([("a", LogisticRegression()), ("b", STUMP)], cv=2),
    VotingClassifier([("a", LogisticRegression()), ("b", STUMP)], voting="soft"),
    MLPClassifier((2,), max_iter=2),
    make_pipeline(SelectKBest(k=2), SelectPercentile(), VarianceThreshold(), LogisticRegression()),
    make_pipeline(make_union(Nystroem(n_components=3), RBFSampler()), LogisticRegression()),
    make_pipeline(
        make_union(
            MaxAbsScaler(), Normalizer(), PowerTransformer(), QuantileTransformer(n_quantiles=9), RobustScaler()
        ),
        PolynomialFeatures(2),
        StandardScaler(),
        LogisticRegression(),
    ),
]
REGRESSORS = [
    *(HistGradientBoostingRegressor(loss=loss, quantile=0.5, max_iter=2) for loss in LOSSES),
    *(ExtraTreesRegressor(2), RandomForestRegressor(2), ExtraTreeRegressor(max_depth=2)),
    *(LinearRegression(), Ridge(), RidgeCV(), Lasso(), LassoCV(cv=2), ElasticNet(), ElasticNetCV(cv=2)),
    *(Lars(), LassoLars(), ARDRegression(), BayesianRidge(), HuberRegressor()),
    *(OrthogonalMatchingPursuit(), QuantileRegressor(), SGDRegressor(), TheilSenRegressor(max_subpopulation=20)),
    *(GammaRegressor(), PoissonRegressor()),
    *(TweedieRegressor(power=1.5), TweedieRegressor(power=0, link="identity"), KernelRidge(), DummyRegressor()),
    *(KNeighborsRegressor(algorithm="ball_tree", metric=metric) for metric in METRICS),
    KNeighborsRegressor(algorithm="ball_tree", p=3),
    TransformedTargetRegressor(Ridge(), transformer=StandardScaler()),
    BaggingRegressor(DecisionTreeRegressor(max_depth=1), 2),
    StackingRegressor([("a", Ridge())], Lasso(), cv=2),
    VotingRegressor([("a", Ridge()), ("b", Lasso())]),
    AdaBoostRegressor(DecisionTreeRegressor(max_depth=1), n_estimators=2),
    MLPRegressor(hidden_layer_sizes=(2,), max_iter=2, solver="sgd"),
    make_pipeline(SelectKBest(f_regression, k=2), FunctionTransformer(), Ridge()),
    make_pipeline(ColumnTransformer([("a", OrdinalEncoder(), [0]), ("b", "passthrough", slice(1, 3))]), Ridge()),
]  # fmt: skip


def trained() -> Iterator[Any]:
    yield from (estimator.fit(X, CODES) for estimator in CLASSIFIERS)
    yield from (estimator.fit(X, NUMBERS) for estimator in REGRESSORS)
    boosting = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0])
    yield from (estimator.fit(X, CLASSES) for estimator in (boosting, LogisticRegression(), STUMP))
    yield from (estimator.fit(X) for estimator in (KMeans(2, n_init=1), PCA(2, svd_solver="randomized")))
    yield from (IsotonicRegression().fit(X[:, 1], NUMBERS), LabelBinarizer().fit(CODES), LabelEncoder().fit(["b", "a"]))


def content(file: bytes) -> tuple[Any, dict[str, bytes]]:
    """Return the tree of a file, without ids and with arrays instead of their names, and the arrays by name."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        arrays = {name: archive.read(name) for name in archive.namelist() if name.endswith(".npy")}
        schema = json.loads(archive.read("schema.json"))

    def without_ids(value: Any) -> Any:
        if isinstance(value, list):
            return [without_ids(item) for item in value]
        if not isinstance(value, dict):
            return value
        kept = {name: without_ids(item) for name, item in value.items() if name != "__id__"}
        return kept | ({"file": arrays[kept["file"]]} if "file" in kept else {})

    return without_ids(schema), arrays


def types(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        if "__loader__" in node:
            yield node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        yield from types(item)


def written(estimator: Any, folder: Path, **options: Any) -> bytes:
    write_skops(estimator, folder / "estimator.skops", **options)
    return (folder / "estimator.skops").read_bytes()


def outputs(estimator: Any) -> np.ndarray:
    for method in ("predict_proba", "predict", "transform"):
        if hasattr(estimator, method):
            rows = {"LabelBinarizer": CODES, "LabelEncoder": ["a", "b"], "IsotonicRegression": X[:, 1]}
            return np.asarray(getattr(estimator, method)(rows.get(type(estimator).__name__, X)))
    raise AssertionError(estimator)


@pytest.mark.filterwarnings("ignore")  # of trainings that end early
def test_files_of_all_allowed_types_equal_those_of_skops(tmp_path: Path) -> None:
    found: set[tuple[str, str]] = set()
    for estimator in trained():
        file = written(estimator, tmp_path)
        schema, arrays = content(file)
        theirs = skops.io.dumps(estimator)
        expected, more = content(theirs)
        assert schema == expected, estimator
        assert len(arrays) <= len(more)  # skops writes the arrays of an estimator that is contained twice again
        found.update(types(schema))
        back = skops.io.loads(file, trusted=skops.io.get_untrusted_types(data=file))
        np.testing.assert_allclose(outputs(back), outputs(estimator), rtol=1e-9)
    rare = {
        ("NdArrayNode", "numpy.float32"), ("NdArrayNode", "numpy.int32"), ("SetNode", "builtins.set"),
        ("NdArrayNode", "numpy.uint64"),
        ("TypeNode", "numpy.float32"), ("TypeNode", "numpy.int32"), ("TypeNode", "numpy.uint64"),
    }  # fmt: skip
    allowed = {(loader, name) for loader, names in ALLOWED.items() for name in names}
    assert allowed - found <= rare and found <= allowed


BUNCH = {"key": np.array([[1.5, 2.5]])}
SHARED = [np.arange(6.0), "x"]
VALUES: dict[str, Any] = {
    "strided": np.arange(20.0)[::3],
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "transposed part": np.arange(24).reshape(4, 6)[::2, ::-2].T,
    "big-endian": np.arange(3, dtype=">i4"),
    "empty": np.empty((0, 3)),
    "no dimension": np.array(3.5),
    "texts": np.array(["a", "bcd"]),
    "record": np.array([(1, 2.5)], dtype=[("a", "i8"), ("b", "f4")]),
    "objects": np.array(["a", None, 3.0, np.float32(1.5)], dtype=object),
    "objects in two dimensions": np.array([["a", 1], [None, 2.0]], dtype=object),
    "scalars": [np.float32(0.1), np.float64(0.1), np.int32(-1), np.int64(1 << 40), np.uint64(1 << 63)],
    "JSON": [None, True, 1 << 70, -0.5, float("nan"), float("-inf"), "ü\n\"", ""],
    "keys": {np.float32(0.1): 1, np.int32(3): 2, np.int64(4): 3, np.float64(0.25): 4, np.uint64(5): 5, "6": 6},
    "shared": [SHARED, {"again": SHARED, "array": SHARED[0]}, (SHARED,)],
    "set": {"a"},
    "slices": [slice(3), slice(None, None, -1)],
    "generators": [np.random.default_rng(3), np.random.RandomState(4)],
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values_inside_an_estimator_equal_those_of_skops_and_are_read_back(name: str, tmp_path: Path) -> None:
    estimator = DummyClassifier(constant=VALUES[name])
    file = written(estimator, tmp_path, compressed=name != "columns")
    expected = skops.io.dumps(estimator)
    assert content(file)[0] == content(expected)[0]
    assert len(content(file)[1]) == len(content(expected)[1])
    ours, theirs = read_skops(file, "").constant, skops.io.loads(file).constant
    if name == "generators":
        ours, theirs, value = ([one.normal() for one in found] for found in (ours, theirs, VALUES[name]))
        assert ours == theirs == value
    else:
        np.testing.assert_equal(ours, VALUES[name])
        np.testing.assert_equal(theirs, VALUES[name])
    if name == "shared":
        assert ours[0] is ours[1]["again"] is ours[2][0] and ours[1]["array"] is ours[0][0]


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Birch(), r"not allowed: sklearn\.cluster\._birch\.Birch$"),
        ([len, {"a": b""}, 1j], r"not allowed: builtins\.bytes, builtins\.complex, builtins\.len$"),
        (written, r"not allowed: tests\.models\.scikit_learn\.test_skops_nodes\.written$"),
        (SimpleNamespace, r"not allowed: types\.SimpleNamespace$"),
        ([np.bool_(1), np.str_("a"), np.float16(1)], r"not allowed: numpy\.bool, numpy\.float16, numpy\.str_$"),
        (np.ma.masked_array([1.0]), r"not allowed: numpy\.ma\.MaskedArray|not allowed: numpy\.ma\.core\.MaskedArray"),
        ({1: "a"}, r"not allowed: builtins\.int$"),
        (np.array([(1, "a")], dtype=[("a", int), ("b", object)]), "loaded again: an array has the dtype"),
        (circle(), "loaded again: Circular reference"),
        (slice(np.int64(1), 2), "loaded again: Object of type int64 is not JSON serializable"),
    ],
)  # fmt: skip
def test_what_the_reader_would_refuse_is_not_written(value: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as raised:
        write_skops(DummyClassifier(constant=value), tmp_path / "estimator.skops")
    assert re.search(message, raised.value.what)
    assert list(tmp_path.iterdir()) == []


def test_the_same_training_gives_the_same_bytes(tmp_path: Path) -> None:
    one, same = (ExtraTreesClassifier(2, random_state=1).fit(X, CODES) for _ in range(2))
    assert written(one, tmp_path) == written(same, tmp_path)
    assert content(written(one, tmp_path)) == content(written(one, tmp_path, compressed=False))
