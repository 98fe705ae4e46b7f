"""Expansion of short forms to ``{standardize: {columns: [...]}}`` for ops and ``{name:, params:}`` for models.

``xgboost: library`` is short for ``xgboost: {defaults: library}``, ``split: 0.2`` for ``split: {test_size: 0.2}`` and
``split: 5`` for ``split: {cv: 5}``. The expansion works on the document with locations,
so that messages quote the file as written.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, count
from typing import Any

from gpupipe.backends.cpu.estimators import ESTIMATORS
from gpupipe.config.document import Node, Problem, build_tree
from gpupipe.models import MODELS, ModelSettings

LIBRARIES = ("sklearn", "xgboost", "lightgbm", "catboost")
HOW = frozenset({"n_jobs", "nthread", "thread_count", "verbose", "verbosity"})  # of the run, without effect on results
SEEDS = frozenset({"random_state", "random_seed", "seed"})
FUNCTION = 'write a function that returns it, and name it: {"estimator": {"use": "my_models.py:make"}}'


def expand(root: Node, problems: list[Problem]) -> None:
    """Expand features, models and split of the document `root` in place; values of another form are left unchanged."""
    sections = root.value
    assert isinstance(sections, dict)
    features = sections.get("features")
    if features is not None and isinstance(features.value, list):
        for item in features.value:
            expand_op(item)
    split = sections.get("split")
    if split is not None and isinstance(split.value, int | float) and not isinstance(split.value, bool):
        split.value, split.written = {"test_size" if split.value < 1 else "cv": replace(split)}, None
    _model_to_models(sections, problems)
    if "models" in sections:
        items = _as_list(sections["models"])
        for item in items:
            _expand_estimator(item, items, problems)
            _expand_model(item)


def expand_op(item: Node) -> None:
    """Expand an op in place: ``standardize: [a, b]`` and ``encode: "@categorical"`` list columns."""
    if not isinstance(item.value, dict):
        return
    for settings in item.value.values():
        if isinstance(settings.value, list | str):
            settings.value, settings.written = {"columns": replace(settings)}, None
        elif settings.value is None:  # ``- auto:``
            settings.value = {}


def _model_to_models(sections: dict[str, Node], problems: list[Problem]) -> None:
    """Replace ``model: xgboost`` by a list of one model."""
    if "model" not in sections:
        return
    single = sections.pop("model")
    if "models" in sections:
        problems.append(Problem(single.key_where, "model", "given together with models; keep one of them"))
    else:
        sections["models"] = Node([single], single.where, single.key_where, single.path)


def _as_list(models: Node) -> list[Node]:
    if models.value is None:
        models.value = []
    if not isinstance(models.value, list):
        models.value, models.written = [replace(models)], None
    return models.value


def _expand_estimator(item: Node, items: list[Node], problems: list[Problem]) -> None:
    """Replace an estimator object, or ``{label: object}``, by its entry with a distinct label."""
    given, label = item.value, ""
    if isinstance(given, dict) and len(given) == 1:
        label, given = next((key, node.value) for key, node in given.items())
    if not is_estimator(given):
        return
    try:
        entry = entry_of(given)
    except ValueError as error:
        problems.append(Problem(item.where, item.path, str(error)))
        return
    label = label or entry.get("as") or next(iter(entry))
    taken = {str(other.plain()["as"]) for other in items if isinstance(other.value, dict) and "as" in other.value}
    own = next(name for name in chain([label], (f"{label}_{n}" for n in count(2))) if name not in taken)
    item.value = build_tree({**entry, "as": own}, item.where, item.path).value


def _expand_model(item: Node) -> None:
    if isinstance(item.value, str):
        item.value, item.written = {"name": replace(item)}, None
    if not isinstance(item.value, dict):
        return
    fields = item.value
    others = [key for key in fields if key not in ("as", "tune")]
    if len(others) > 1 and "params" not in fields:  # a misspelled key next to the model, such as ``tunes``
        others = [key for key in others if key in MODELS] or others
    if "name" not in fields and len(others) == 1:
        given = fields.pop(others[0])
        fields["name"] = Node(others[0], given.key_where, given.key_where, given.path)
        fields["params"] = given
    params = fields.get("params")
    if params is not None and params.value is None:
        params.value = {}
    elif params is not None and isinstance(params.value, str):  # ``xgboost: library``
        params.value, params.written = {"defaults": replace(params)}, None


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
