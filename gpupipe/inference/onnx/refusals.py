"""Refusals of models that ONNX cannot express: each op, kernel and estimator by name, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ConfigError
from gpupipe.inference.onnx.estimators import NETWORKS, is_writable, single_models
from gpupipe.tasks import CLASSIFICATION

if TYPE_CHECKING:
    from gpupipe.features.program.fitted import FittedFeatures
    from gpupipe.model_parts.goal import Goal
    from gpupipe.models.fitted.base import FittedModel

TASKS = CLASSIFICATION | {"regression", "quantile", "ranking", "multioutput"}
FIX = "train without them, or serve the model with gpupipe serve"


def require_expressible(
    goal: Goal, features: FittedFeatures, estimator: FittedModel, networks: Mapping[int, Any], where: str
) -> None:
    """Raise ConfigError with everything that ONNX cannot express.

    - `networks`: the ONNX form of each network that has one, by its identity
    - `where`: the model, for the message
    """
    found = [*_of_features(features), *_of_task(goal), *_of_estimator(estimator, networks)]
    if found:
        what = "ONNX cannot express:\n" + "\n".join(f"  {each}" for each in dict.fromkeys(found))
        raise ConfigError(what, where=where, fix=FIX)


def _of_task(goal: Goal) -> Iterator[str]:
    if goal.task not in TASKS:
        yield f"the task {goal.task}"


def _of_features(features: FittedFeatures) -> Iterator[str]:
    from gpupipe.features.ops.distinct_text_op import TextOp

    for op in () if features.derivation is None else features.derivation.ops:
        of = f" of {', '.join(op.columns)}, which reads texts" if isinstance(op, TextOp) else ", which reads events"
        yield f"{op.title()}{of}"
    for column in features.schema:
        if column.hash_of is not None:
            yield f"hash_bucket of {column.source}"
    for call in features.program.calls:
        yield f"the custom kernel {call.name}"


def _of_estimator(estimator: FittedModel, networks: Mapping[int, Any]) -> Iterator[str]:
    for model in single_models(estimator):
        name = type(model.estimator).__name__ if model.library == "scikit-learn" else f"this {model.library} model"
        if model.library in NETWORKS and id(model) not in networks:
            yield "a network without estimator.onnx: pip install onnx onnxruntime, and run again"
        elif not is_writable(model):
            yield f"the estimator {name}"
