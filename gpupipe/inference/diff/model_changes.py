"""Changes between two models that their directories record: settings, columns, levels, features, decisions, sizes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpupipe.inference.diff.prediction_comparison import has_equal_classes, obstacle
from gpupipe.model_parts.differences import setting_differences

if TYPE_CHECKING:
    from gpupipe.inference.model import Model

MOST_LEARNED = 8  # changed values of one learned state that are listed


@dataclass(frozen=True)
class ModelChange:
    """Value that differs between two models.

    `part` is the part of the model: ``"columns"``. `old` and `new` are None where a model does not have `name`. Of
    lists, they have the items that are only in one; of levels, those that went and those that came.
    """

    part: str
    name: str
    old: Any
    new: Any


def model_changes(old: Model, new: Model) -> list[ModelChange]:
    """Return the changes from one model to another; what is equal is not listed."""
    documents = [_document(model) for model in (old, new)]
    if old.manifest["model"]["name"] != new.manifest["model"]["name"]:
        for document in documents:  # parameters with the same name mean different things
            document["model"] = {"name": document["model"]["name"]}
    for document in documents:  # that other columns are texts follows from their kinds
        document["reading"]["texts"] = [name for name in document["reading"].get("texts", ()) if name in old.inputs]
    documents[0]["reading"]["texts"] = [name for name in documents[0]["reading"]["texts"] if name in new.inputs]
    found = []
    for part in documents[1]:
        one, two = documents[0][part], documents[1][part]
        if part == "learned":
            found += _learned_changes(one, two)
            continue
        if part == "levels":  # those of a new column are new as a whole
            one, two = ({name: each[name] for name in one if name in two} for each in (one, two))
        for name, (before, after) in setting_differences([one, two]).items():
            found += _change(part, name, before, after)
    return found


def uncompared(old: Model, new: Model) -> list[str]:
    """Return what cannot be compared in two models, each with its reason."""
    found = [obstacle(old.goal, new.goal)]
    if not found[0] and not has_equal_classes(old.goal, new.goal):
        found.append("metrics and contributions: the classes differ")
    if new.goal.task == "ranking":
        found.append("metrics: those of rankings need the groups of the rows")
    names = [str(model.manifest["model"]["name"]) for model in (old, new)]
    if names[0] != names[1]:
        found.append(f"settings of the models: {names[0]} and {names[1]} are different families")
    hashed = [{c.source for c in model.features.input_schema if c.hash_of is not None} for model in (old, new)]
    shared = (hashed[0] | hashed[1]) & set(old.inputs) & set(new.inputs)
    if shared:
        found.append(f"levels of {', '.join(sorted(shared))}: they are hashed, so that no model has a list of them")
    timed = [bool(_latency(model)) for model in (old, new)]
    if timed[0] != timed[1]:
        found.append(f"latency: the run of the {'new' if timed[0] else 'old'} model measured none")
    return [text for text in found if text]


def _change(part: str, name: str, old: Any, new: Any) -> list[ModelChange]:
    if {} in (old, new):  # what the other model has in its place is listed by itself
        return []
    if isinstance(old, list) and isinstance(new, list):
        keys = [set(map(json.dumps, items)) for items in (old, new)]
        gone = [item for item in old if json.dumps(item) not in keys[1]]
        come = [item for item in new if json.dumps(item) not in keys[0]]
        if gone or come:
            return [ModelChange(part, name, gone, come)]
        if part == "levels":  # in another order, they are the same levels
            return []
    return [ModelChange(part, name, old, new)]


def _document(model: Model) -> dict[str, dict[str, Any]]:
    """Return the parts of a model as JSON values by name."""
    manifest, goal = model.manifest, model.goal
    schema = model.features.input_schema
    files = {name: each["bytes"] for name, each in manifest["files"].items()}
    estimator = [files.get(name, 0) for name in manifest["estimator"]["files"]]
    columns: dict[str, Any] = dict.fromkeys(model.inputs, "raw")  # ops over keys and texts read it unencoded
    for column in schema:
        written = column.time_format or column.number_format
        columns |= {} if column.derived else {column.source: column.kind + (f" ({written})" if written else "")}
    decision = manifest["decision"]
    if "targets" in decision:
        decision = dict(zip(goal.names, decision["targets"], strict=True))
    return {
        "goal": {key: manifest.get(key) for key in ("task", "target", "labels", "targets", "quantiles")},
        "model": dict(manifest["model"]),
        "decision": decision,
        "columns": columns,
        "levels": {c.source: list(c.levels) for c in schema if c.levels is not None and not c.derived},
        "rules": {each["column"]: each["rules"] for each in manifest["data"]},
        "reading": dict(manifest["reading"]),
        "metrics": dict(manifest["metrics"]),
        "training": {"rows": None if model.features.training is None else model.features.training.n_rows},
        "bytes": {"model": sum(files.values()), "estimator": sum(estimator)},
        "latency": _latency(model),
        "versions": {"gpupipe": manifest["gpupipe"], **manifest["libraries"]},
        "features": {each.name: f"{each.op}({', '.join(each.inputs)})" for each in model.features.features},
        "learned": _learned(model),
    }


def _learned(model: Model) -> dict[str, Any]:
    """Return what each op learned, by op and columns; a further state of the same op has a number."""
    found: dict[str, Any] = {}
    for state in model.features.states:
        key = f"{state.get('op', 'op')}({state.get('column', '')})"
        name, n = key, 1
        while name in found:
            name, n = f"{key} {n + 1}", n + 1
        found[name] = {key: value for key, value in state.items() if key not in ("op", "column")}
    return found


def _learned_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[ModelChange]:
    found = []
    for name in dict.fromkeys([*old, *new]):
        leaves = setting_differences([old.get(name, {}), new.get(name, {})])
        if name not in old or name not in new:
            found.append(ModelChange("learned", name, *("learned" if name in each else None for each in (old, new))))
        elif len(leaves) > MOST_LEARNED:
            found.append(ModelChange("learned", name, f"{len(leaves):,} values", f"{len(leaves):,} other values"))
        else:
            for path, values in leaves.items():
                found += _change("learned", f"{name}.{path}", *values)
    return found


def _latency(model: Model) -> dict[str, Any]:
    """Return the latencies of single rows that the run around a model measured; empty if it measured none."""
    try:
        document = json.loads((model.folder.parent / "metrics.json").read_text(encoding="utf-8"))
        own = document["latency"]["models"][document["best"]]
        return {name: own[name] for name in ("p50_seconds", "p99_seconds")}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
