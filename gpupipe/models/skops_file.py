"""scikit-learn estimators on disk: skops files, read only if every type in them is one that our models are made of.

A skops file is a zip of arrays and one ``schema.json``, a tree of nodes that name the class to build. The names are
checked here, before skops builds anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from gpupipe.errors import ArtifactError
from gpupipe.untrusted.archives import BROKEN, check_array, check_members
from gpupipe.untrusted.documents import parse_json

_MODULES: dict[str, str] = {
    "builtins": "dict list set slice str tuple",
    "functools": "partial",
    "numpy": "float32 float64 int32 int64 ndarray uint64",
    "numpy.random._generator": "Generator",
    "sklearn._loss._loss": (
        "CyAbsoluteError CyHalfBinomialLoss CyHalfGammaLoss CyHalfMultinomialLoss CyHalfPoissonLoss CyHalfSquaredError "
        "CyPinballLoss"
    ),
    "sklearn._loss.link": "IdentityLink Interval LogLink LogitLink MultinomialLogit",
    "sklearn._loss.loss": (
        "AbsoluteError HalfBinomialLoss HalfGammaLoss HalfMultinomialLoss HalfPoissonLoss HalfSquaredError PinballLoss"
    ),
    "sklearn.calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "sklearn.cluster._kmeans": "KMeans",
    "sklearn.compose._column_transformer": "ColumnTransformer",
    "sklearn.decomposition._pca": "PCA",
    "sklearn.ensemble._forest": "RandomForestClassifier RandomForestRegressor",
    "sklearn.ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting": (
        "HistGradientBoostingClassifier HistGradientBoostingRegressor"
    ),
    "sklearn.ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "sklearn.linear_model._base": "LinearRegression",
    "sklearn.linear_model._coordinate_descent": "ElasticNet Lasso",
    "sklearn.linear_model._logistic": "LogisticRegression",
    "sklearn.linear_model._ridge": "Ridge",
    "sklearn.metrics._dist_metrics": (
        "BrayCurtisDistance64 CanberraDistance64 ChebyshevDistance64 EuclideanDistance64 HammingDistance64 "
        "ManhattanDistance64 MinkowskiDistance64"
    ),
    "sklearn.naive_bayes": "GaussianNB",
    "sklearn.neighbors._ball_tree": "BallTree",
    "sklearn.neighbors._classification": "KNeighborsClassifier",
    "sklearn.neighbors._kd_tree": "KDTree",
    "sklearn.neighbors._regression": "KNeighborsRegressor",
    "sklearn.preprocessing._encoders": "OrdinalEncoder",
    "sklearn.preprocessing._function_transformer": "FunctionTransformer",
    "sklearn.preprocessing._label": "LabelEncoder",
    "sklearn.svm._classes": "LinearSVC",
    "sklearn.tree._classes": "DecisionTreeClassifier DecisionTreeRegressor",
    "sklearn.tree._tree": "Tree",
    "sklearn.utils.validation": "check_array",
}
# What users' own estimators may be made of besides (`gpupipe.models.estimator`): classes that predict by NumPy, which
# checks its indices, and trees, which are checked here. Not among them are those that hand what a file holds to native
# code unchecked: libsvm's, GradientBoosting, splines.
_OWN_MODULES: dict[str, str] = {
    "numpy.random.mtrand": "RandomState",
    "sklearn._loss._loss": "CyHalfTweedieLoss CyHalfTweedieLossIdentity",
    "sklearn._loss.loss": "HalfTweedieLoss HalfTweedieLossIdentity",
    "sklearn.compose._target": "TransformedTargetRegressor",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "sklearn.dummy": "DummyClassifier DummyRegressor",
    "sklearn.ensemble._bagging": "BaggingClassifier BaggingRegressor",
    "sklearn.ensemble._forest": "ExtraTreesClassifier ExtraTreesRegressor",
    "sklearn.ensemble._stacking": "StackingClassifier StackingRegressor",
    "sklearn.ensemble._voting": "VotingClassifier VotingRegressor",
    "sklearn.ensemble._weight_boosting": "AdaBoostClassifier AdaBoostRegressor",
    "sklearn.feature_selection._univariate_selection": "SelectKBest SelectPercentile f_classif f_regression",
    "sklearn.feature_selection._variance_threshold": "VarianceThreshold",
    "sklearn.isotonic": "IsotonicRegression",
    "sklearn.kernel_approximation": "Nystroem RBFSampler",
    "sklearn.kernel_ridge": "KernelRidge",
    "sklearn.linear_model._bayes": "ARDRegression BayesianRidge",
    "sklearn.linear_model._coordinate_descent": "ElasticNetCV LassoCV",
    "sklearn.linear_model._glm.glm": "GammaRegressor PoissonRegressor TweedieRegressor",
    "sklearn.linear_model._huber": "HuberRegressor",
    "sklearn.linear_model._least_angle": "Lars LassoLars",
    "sklearn.linear_model._logistic": "LogisticRegressionCV",
    "sklearn.linear_model._omp": "OrthogonalMatchingPursuit",
    "sklearn.linear_model._quantile": "QuantileRegressor",
    "sklearn.linear_model._ridge": "RidgeCV",
    "sklearn.linear_model._stochastic_gradient": "SGDClassifier SGDRegressor",
    "sklearn.linear_model._theil_sen": "TheilSenRegressor",
    "sklearn.naive_bayes": "BernoulliNB ComplementNB MultinomialNB",
    "sklearn.neural_network._multilayer_perceptron": "MLPClassifier MLPRegressor",
    "sklearn.neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing._data": (
        "MaxAbsScaler MinMaxScaler Normalizer PowerTransformer QuantileTransformer RobustScaler StandardScaler"
    ),
    "sklearn.preprocessing._label": "LabelBinarizer",
    "sklearn.preprocessing._polynomial": "PolynomialFeatures",
    "sklearn.tree._classes": "ExtraTreeClassifier ExtraTreeRegressor",
    "sklearn.utils._bunch": "Bunch",
}
ALLOWED_TYPES = frozenset(
    f"{module}.{name}"
    for found in (_MODULES, _OWN_MODULES)
    for module, names in found.items()
    for name in names.split()
)
# How skops may build them. Methods, operators and reduce calls are not among them: our models need none.
ALLOWED_LOADERS = frozenset(
    {
        "DictNode",
        "FunctionNode",
        "JsonNode",
        "ListNode",
        "LossNode",
        "NdArrayNode",
        "ObjectNode",
        "PartialNode",
        "RandomGeneratorNode",
        "RandomStateNode",
        "SetNode",
        "SliceNode",
        "TreeNode",
        "TupleNode",
        "TypeNode",
    }
)


def write_skops(estimator: Any, path: Path, compressed: bool = True) -> None:
    """Write a fitted estimator; of a forest, compression takes most of the time.

    Raises
    ------
    ArtifactError
        If it holds a type that could not be read back.
    """
    import skops.io

    skops.io.dump(estimator, path, compression=ZIP_DEFLATED if compressed else ZIP_STORED, compresslevel=1)
    _check_types(path, fix="tell us: a model of gpupipe must be readable")


def read_skops(path: Path) -> Any:
    """Return the estimator in a file.

    Raises
    ------
    ArtifactError
        If the file is damaged or names a type that no model of ours is made of.
    """
    _check_types(path, fix="do not load it unless you know who made it; export the model again")
    try:
        import skops.io
    except ImportError as error:
        raise ArtifactError(f"the model needs skops: {error}", where=str(path), fix="pip install skops") from error
    try:
        return skops.io.load(path, trusted=sorted(ALLOWED_TYPES))
    except Exception as error:  # a damaged file fails anywhere in skops, NumPy or scikit-learn
        raise ArtifactError(
            f"the estimator cannot be read: {type(error).__name__}: {error}",
            where=str(path),
            fix="use the scikit-learn version that the manifest names, or export the model again",
        ) from error


def _check_types(path: Path, fix: str) -> None:
    try:
        with ZipFile(path) as archive:
            check_members(archive, path.stat().st_size)
            schema = parse_json(archive.read("schema.json"))
            for info in archive.filelist:
                if info.filename.endswith(".npy"):
                    check_array(archive, info)
    except (KeyError, ValueError, *BROKEN) as error:
        raise ArtifactError(f"not a skops file: {error}", where=str(path), fix="export the model again") from error
    strangers = {name for name, loader in _nodes(schema) if name not in ALLOWED_TYPES or loader not in ALLOWED_LOADERS}
    if strangers:
        listed = ", ".join(sorted(strangers))
        raise ArtifactError(f"the file holds types that are not allowed: {listed}", where=str(path), fix=fix)


def _nodes(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield the type name and the loader of every node."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if "__loader__" in node or "__class__" in node:
                yield f"{node.get('__module__')}.{node.get('__class__')}", str(node.get("__loader__"))
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
