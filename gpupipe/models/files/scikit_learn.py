"""A scikit-learn estimator from a file: of a kind that we train, sound, and as the model says."""

from __future__ import annotations

from typing import Any

from gpupipe.models.files.description import Description
from gpupipe.models.files.estimator_checks import check_estimators, prepare_estimators
from gpupipe.tasks import CLASSIFICATION, REGRESSION, SUPERVISED, Task

_CLASSIFIERS = (
    "CalibratedClassifierCV GaussianNB HistGradientBoostingClassifier KNeighborsClassifier LogisticRegression "
    "RandomForestClassifier"
)
_REGRESSORS = (
    "ElasticNet HistGradientBoostingRegressor KNeighborsRegressor Lasso LinearRegression RandomForestRegressor Ridge"
)
_OWN_CLASSIFIERS = (
    "AdaBoostClassifier BaggingClassifier BernoulliNB ComplementNB DecisionTreeClassifier DummyClassifier "
    "ExtraTreeClassifier ExtraTreesClassifier LinearDiscriminantAnalysis LogisticRegressionCV MLPClassifier "
    "MultinomialNB QuadraticDiscriminantAnalysis SGDClassifier StackingClassifier VotingClassifier"
)
_OWN_REGRESSORS = (
    "ARDRegression AdaBoostRegressor BaggingRegressor BayesianRidge DecisionTreeRegressor DummyRegressor ElasticNetCV "
    "ExtraTreeRegressor ExtraTreesRegressor GammaRegressor HuberRegressor KernelRidge Lars LassoCV LassoLars "
    "MLPRegressor OrthogonalMatchingPursuit PoissonRegressor QuantileRegressor RidgeCV SGDRegressor StackingRegressor "
    "TheilSenRegressor TransformedTargetRegressor TweedieRegressor VotingRegressor"
)
KINDS: dict[str, frozenset[Task]] = {
    **{name: CLASSIFICATION for name in _CLASSIFIERS.split()},
    **{name: REGRESSION for name in _REGRESSORS.split()},
    **{name: CLASSIFICATION for name in _OWN_CLASSIFIERS.split()},
    **{name: REGRESSION for name in _OWN_REGRESSORS.split()},
    "Pipeline": SUPERVISED,
    "KMeans": frozenset({"clustering"}),
    "PCA": frozenset({"embedding"}),
}  # fmt: skip
# What we train ourselves: these do not write to the rows that they predict.
OURS = frozenset((_CLASSIFIERS + " " + _REGRESSORS).split()) | {"KMeans", "PCA"}


def check_estimator(estimator: Any, said: Description) -> None:
    """Verify that what a file held is an estimator that does what the model says, and prepare it to predict.

    Raises
    ------
    ValueError
        If it is of another kind, takes other columns, knows other classes, or has a part that is not sound.
    """
    name = type(estimator).__name__
    if said.task not in KINDS.get(name, ()):
        raise ValueError(f"a {name} is no estimator for {said.task}")
    said.check_columns(getattr(estimator, "n_features_in_", None))
    if said.task in CLASSIFICATION and len(getattr(estimator, "classes_", ())) != len(said.classes):
        raise ValueError(f"it does not know the {len(said.classes)} classes of the model")
    check_estimators(estimator)
    prepare_estimators(estimator)
