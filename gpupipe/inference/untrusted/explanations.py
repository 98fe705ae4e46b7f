"""Explanations sent by the child process of an untrusted model, and their validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from gpupipe.inference.explanation.explanation import Explanation
from gpupipe.inference.explanation.outputs import margin_names
from gpupipe.inference.prediction.events import ServedEvents
from gpupipe.inference.untrusted.description import DescribedFeatures
from gpupipe.inference.untrusted.messages import unpack_array
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.part_checks import read_names
from gpupipe.model_parts.reason_codes import HISTORY
from gpupipe.models.contributions.base import Method, Scale
from gpupipe.typing import HostArray

FLOAT = ("<f8",)


def explanation_arrays(found: Explanation) -> dict[str, HostArray]:
    """Return the arrays of an explanation by name."""
    import numpy as np

    arrays: dict[str, HostArray] = {"values": found.values, "base": np.atleast_1d(found.base)}
    return arrays if found.interactions is None else {**arrays, "interactions": found.interactions}


def describe_explanation(found: Explanation) -> dict[str, Any]:
    """Return everything but the arrays of an explanation, as JSON values."""
    divided = {name: list(columns) for name, columns in found.divided.items()}
    names = {"columns": list(found.columns), "outputs": list(found.outputs), "divided": divided}
    return {**names, "scale": found.scale, "method": found.method}


def explained_names(features: DescribedFeatures, events: ServedEvents) -> tuple[str, ...]:
    """Return the names that columns of an explanation may have: inputs, further tables, ``history`` and features."""
    return tuple(dict.fromkeys([*features.inputs, *events.tables, HISTORY, *features.names]))


def read_explanation(
    reply: Mapping[str, Any],
    parts: Sequence[memoryview],
    goal: Goal,
    known: Sequence[str],
    feature_names: Sequence[str],
    n_rows: int,
    interactions: bool,
) -> Explanation:
    """Return the explanation of `n_rows` rows by a model with `goal`.

    `known` has the names that columns may have, and `feature_names` those that divided features may have.
    `interactions` is true if they were requested. Raise ValueError, KeyError or TypeError if the reply is malformed.
    """
    document = reply["explanation"]
    columns, outputs = (read_names(document[key], f"the {key} of the explanation") for key in ("columns", "outputs"))
    if len(set(columns)) < len(columns) or not set(columns) <= set(known):
        raise ValueError("explanation: expected distinct columns of the model")
    _check_outputs(outputs, goal)
    scale, method = document["scale"], document["method"]
    if scale not in get_args(Scale) or method not in get_args(Method):
        raise ValueError(f"explanation: unknown scale {scale!r:.40} or method {method!r:.40}")
    divided = {name: read_names(own, "the divided columns") for name, own in document["divided"].items()}
    if not set(divided) <= set(feature_names) or not all(set(own) <= set(columns) for own in divided.values()):
        raise ValueError("explanation: expected divided features of the model")
    n, of_outputs = len(columns), (len(outputs),) if outputs else ()
    shapes = {"values": (n_rows, n, *of_outputs), "base": of_outputs or (1,)}
    if interactions:
        shapes["interactions"] = (n_rows, n, n, *of_outputs)
    described = {each["name"]: (each, part) for each, part in zip(reply["arrays"], parts, strict=True)}
    if set(described) != set(shapes) or len(parts) != len(shapes):
        raise ValueError(f"arrays: expected {', '.join(shapes)}; found {', '.join(map(repr, described)):.200}")
    arrays: dict[str, Any] = {name: unpack_array(*described[name], FLOAT, shape) for name, shape in shapes.items()}
    base = arrays["base"] if outputs else float(arrays["base"][0])
    return Explanation(columns, arrays["values"], base, outputs, scale, method, divided, arrays.get("interactions"))


def _check_outputs(outputs: Sequence[str], goal: Goal) -> None:
    """Raise ValueError unless `outputs` are the margins of the goal; classes without training rows have none."""
    expected = margin_names(goal)
    required = margin_names(goal, [() if own.task == "multiclass" else (0,) for own in goal.each])
    is_subset = [name for name in expected if name in outputs] == list(outputs) and bool(outputs) == bool(expected)
    if not is_subset or not set(required) <= set(outputs):
        raise ValueError(f"explanation: expected the outputs {', '.join(expected)}; found {', '.join(outputs)}"[:200])
