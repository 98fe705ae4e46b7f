"""Check of a scikit-learn estimator from a file: class, shape and state."""

from __future__ import annotations

from typing import Any

from gpupipe.models.files.description import Description
from gpupipe.models.scikit_learn.estimator_checks import check_estimators, prepare_estimators
from gpupipe.tasks import CLASSIFICATION, REGRESSION, Task

_CLASSIFIERS = (
    "CalibratedClassifierCV ExtraTreesClassifier GaussianNB HistGradientBoostingClassifier KNeighborsClassifier "
    "LogisticRegression RandomForestClassifier"
)
_REGRESSORS = (
    "ElasticNet ExtraTreesRegressor HistGradientBoostingRegressor KNeighborsRegressor Lasso LinearRegression "
    "RandomForestRegressor Ridge"
)
_OWN_CLASSIFIERS = (
    "AdaBoostClassifier BaggingClassifier BernoulliNB ComplementNB DecisionTreeClassifier DummyClassifier "
    "ExtraTreeClassifier LinearDiscriminantAnalysis LogisticRegressionCV MLPClassifier "
    "MultinomialNB QuadraticDiscriminantAnalysis SGDClassifier StackingClassifier VotingClassifier"
)
_OWN_REGRESSORS = (
    "ARDRegression AdaBoostRegressor BaggingRegressor BayesianRidge DecisionTreeRegressor DummyRegressor ElasticNetCV "
    "ExtraTreeRegressor GammaRegressor HuberRegressor KernelRidge Lars LassoCV LassoLars "
    "MLPRegressor OrthogonalMatchingPursuit PoissonRegressor QuantileRegressor RidgeCV SGDRegressor StackingRegressor "
    "TheilSenRegressor TransformedTargetRegressor TweedieRegressor VotingRegressor"
)
KINDS: dict[str, frozenset[Task]] = {
    **{name: CLASSIFICATION for name in _CLASSIFIERS.split()},
    **{name: REGRESSION for name in _REGRESSORS.split()},
    **{name: CLASSIFICATION for name in _OWN_CLASSIFIERS.split()},
    **{name: REGRESSION for name in _OWN_REGRESSORS.split()},
    "Pipeline": CLASSIFICATION | REGRESSION,
    "KMeans": frozenset({"clustering"}),
    "PCA": frozenset({"embedding"}),
}
# Estimators of gpupipe's own models, which do not write to the rows that they predict.
OURS = frozenset((_CLASSIFIERS + " " + _REGRESSORS).split()) | {"KMeans", "PCA"}


def check_estimator(estimator: Any, expected: Description) -> None:
    """Verify that an object from a file is an estimator that matches the model, and prepare it to predict.

    Raise ValueError if its class, columns or classes do not match, or a part has unsafe state.
    """
    name = type(estimator).__name__
    if expected.task not in KINDS.get(name, ()):
        raise ValueError(f"a {name} is not an estimator for the task {expected.task}")
    expected.check_columns(getattr(estimator, "n_features_in_", None))
    if expected.task in CLASSIFICATION and len(getattr(estimator, "classes_", ())) != len(expected.classes):
        raise ValueError(f"expected {len(expected.classes)} classes, as in the model")
    check_estimators(estimator)
    prepare_estimators(estimator)
