"""Estimator objects of scikit-learn, XGBoost, LightGBM and CatBoost as entries of ``models``."""

from __future__ import annotations

from typing import Any

from gpupipe.backends.cpu.estimators import ESTIMATORS
from gpupipe.models import MODELS, ModelSettings

LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost")
HOW = frozenset({"n_jobs", "nthread", "thread_count", "verbose", "verbosity"})  # of the run, without effect on results
SEEDS = frozenset({"random_state", "random_seed", "seed"})
FUNCTION = 'write a function that returns it, and name it: {"estimator": {"use": "my_models.py:make"}}'


def is_estimator(value: object) -> bool:
    """Return whether a value has the interface of a scikit-learn estimator, or is a class of such objects."""
    return hasattr(value, "get_params") and not isinstance(value, ModelSettings)


def entry_of(estimator: Any) -> dict[str, Any]:
    """Return the entry of an estimator, whether it is fitted or not: its class, and the parameters that are changed.

    The entry is that of gpupipe's own model of the class, if it has all these parameters, otherwise ``estimator`` with
    the class of scikit-learn. Raise ValueError with what to write if a configuration cannot state it.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> entry_of(LogisticRegression(C=0.1, n_jobs=2))
    {'logistic_regression': {'defaults': 'library', 'C': 0.1}}
    >>> entry_of(LogisticRegression(random_state=3))["estimator"]
    {'use': 'sklearn.linear_model.LogisticRegression', 'params': {'random_state': 3}}
    """
    if isinstance(estimator, type):
        raise ValueError(f"expected an estimator object, got its class; write {estimator.__name__}()")
    kind = type(estimator)
    name, (library, *modules) = kind.__name__, kind.__module__.split(".")
    if library not in LIBRARIES:
        raise ValueError(f"{name} is not a class of {', '.join(LIBRARIES)}; {FUNCTION}")
    changed = {key: value for key, value in _changed(estimator).items() if key not in HOW}
    if odd := next((key for key, value in changed.items() if not _is_plain(value)), ""):
        raise ValueError(f"{name} has {odd}={changed[odd]!r:.60}, which a configuration cannot state; {FUNCTION}")
    model = _model_of(name)
    if model and set(changed) <= set(MODELS.get(model).model_fields):
        return {model: {"defaults": "library", **changed}}
    if library == "sklearn":
        public = ".".join([library, *(each for each in modules if not each.startswith("_")), name])
        return {"estimator": {"use": public, "params": changed}, "as": name}
    if seed := next((key for key in SEEDS if key in changed), ""):
        raise ValueError(f"{name} has {seed}={changed[seed]!r}; set seed={changed[seed]!r} of the pipeline instead")
    return {model or name: changed}  # the error names the parameters that the model has


def _changed(estimator: Any) -> dict[str, Any]:
    """Return the parameters that differ from the defaults of the class; all, if some have no default."""
    given: dict[str, Any] = estimator.get_params(deep=False)
    try:
        defaults = type(estimator)().get_params(deep=False)
    except TypeError:
        return given
    return {key: value for key, value in given.items() if key not in defaults or repr(value) != repr(defaults[key])}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str) or type(value).__module__ == "numpy"


def _model_of(estimator: str) -> str:
    """Return the name of the model that trains a class; "" if there is none."""
    if estimator not in ESTIMATORS:
        return ""
    for name in MODELS.builtin_names():
        settings, tasks = MODELS.get(name), MODELS.get(name).tasks
        if any(settings.model_construct().estimator_name(task) == estimator for task in tasks):
            return name
    return ""
