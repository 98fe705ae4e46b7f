"""Types allowed in a skops file, each with the loader that builds it."""

from __future__ import annotations

from itertools import chain

# Types of the models of `gpupipe.models`.
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
    "sklearn.ensemble._forest": "ExtraTreesClassifier ExtraTreesRegressor RandomForestClassifier RandomForestRegressor",
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
# Further types of custom estimators: classes that predict with NumPy, which checks indices, and those covered by
# `gpupipe.models.scikit_learn.estimator_checks`. Classes that pass file content to native code unchecked are excluded:
# libsvm's, GradientBoosting, splines.
_OWN_MODULES: dict[str, str] = {
    "numpy.random.mtrand": "RandomState",
    "sklearn._loss._loss": "CyHalfTweedieLoss CyHalfTweedieLossIdentity",
    "sklearn._loss.loss": "HalfTweedieLoss HalfTweedieLossIdentity",
    "sklearn.compose._target": "TransformedTargetRegressor",
    "sklearn.discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "sklearn.dummy": "DummyClassifier DummyRegressor",
    "sklearn.ensemble._bagging": "BaggingClassifier BaggingRegressor",
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


def _types(module: str) -> list[str]:
    """Return the full names of the types allowed from a module."""
    names = [*_MODULES.get(module, "").split(), *_OWN_MODULES.get(module, "").split()]
    return [f"{module}.{name}" for name in names]


DISTANCES = frozenset(_types("sklearn.metrics._dist_metrics"))
NEIGHBOR_TREES = frozenset({"sklearn.neighbors._ball_tree.BallTree", "sklearn.neighbors._kd_tree.KDTree"})

# Supported loaders of skops, and the types that each may build. Loaders of methods, operators and reduce calls are
# excluded: no allowed estimator needs one.
_LOADERS = {
    "DictNode": "builtins.dict sklearn.utils._bunch.Bunch",
    "FunctionNode": (
        "sklearn.feature_selection._univariate_selection.f_classif "
        "sklearn.feature_selection._univariate_selection.f_regression sklearn.utils.validation.check_array"
    ),
    "JsonNode": "builtins.str",
    "ListNode": "builtins.list",
    "LossNode": " ".join(_types("sklearn._loss._loss")),
    "NdArrayNode": "numpy.float32 numpy.float64 numpy.int32 numpy.int64 numpy.ndarray numpy.uint64",
    "PartialNode": "functools.partial",
    "RandomGeneratorNode": "numpy.random._generator.Generator",
    "RandomStateNode": "numpy.random.mtrand.RandomState",
    "SetNode": "builtins.set",
    "SliceNode": "builtins.slice",
    "TreeNode": "sklearn.tree._tree.Tree",
    "TupleNode": "builtins.tuple",
    "TypeNode": "builtins.str numpy.float32 numpy.float64 numpy.int32 numpy.int64 numpy.uint64",
}
_SPECIAL = frozenset(" ".join(_LOADERS.values()).split())
ALLOWED: dict[str, frozenset[str]] = {
    **{loader: frozenset(names.split()) for loader, names in _LOADERS.items()},
    "ObjectNode": frozenset(chain.from_iterable(map(_types, _MODULES | _OWN_MODULES))) - _SPECIAL,
}
LOADERS: dict[str, str] = {}
for _loader, _names in ALLOWED.items():
    if _loader not in ("FunctionNode", "JsonNode", "TypeNode"):
        LOADERS |= dict.fromkeys(_names, _loader)
"""Loader of the objects of each type; functions, types and JSON values are their own."""
