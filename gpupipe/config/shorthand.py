"""Expansion of short forms to ``{standardize: {columns: [...]}}`` for ops and ``{name:, params:}`` for models.

``xgboost: library`` is short for ``xgboost: {defaults: library}``, ``split: 0.2`` for ``split: {test_size: 0.2}`` and
``split: 5`` for ``split: {cv: 5}``. The expansion works on the document with locations,
so that messages quote the file as written.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, count

from gpupipe.config.document import Node, Problem, build_tree
from gpupipe.config.estimator_objects import entry_of, is_estimator
from gpupipe.models import MODELS


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
