"""Refusals of models that a target cannot express: each op, kernel and estimator by name, before a file is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpupipe.errors import ConfigError
from gpupipe.inference.targets.estimators import NETWORKS, is_writable, single_models
from gpupipe.tasks import CLASSIFICATION

if TYPE_CHECKING:
    from gpupipe.features.program.fitted import FittedFeatures
    from gpupipe.inference.model import Model
    from gpupipe.model_parts.goal import Goal
    from gpupipe.models.fitted.base import FittedModel

TASKS = CLASSIFICATION | {"regression", "quantile", "ranking", "multioutput"}
RULES = "the rules of data:"
FIX = "train without them, or serve the model with gpupipe serve"


def require_expressible(
    model: Model, target: str, refused: Iterable[str], networks: Mapping[int, Any] | None, where: str
) -> None:
    """Raise ConfigError with everything that a target cannot express.

    - `target`: its name, for the message
    - `refused`: what this target alone cannot express
    - `networks`: the ONNX form of each network that has one, by its identity; None if the target has no networks
    - `where`: the model, for the message
    """
    found = [*_of_features(model.features), *_of_task(model.goal), *_of_estimator(model.estimator, networks), *refused]
    if found:
        what = f"{target} cannot express:\n" + "\n".join(f"  {each}" for each in dict.fromkeys(found))
        raise ConfigError(what, where=where, fix=FIX)


def _of_task(goal: Goal) -> Iterator[str]:
    if goal.task not in TASKS:
        yield f"the task {goal.task}"


def _of_features(features: FittedFeatures) -> Iterator[str]:
    from gpupipe.features.ops.content_op import ContentOp

    for op in () if features.derivation is None else features.derivation.ops:
        if isinstance(op, ContentOp):
            yield f"{op.title()} of {', '.join(op.columns)}, which reads {op.READS}"
    for column in features.schema:
        if column.hash_of is not None:
            name = "hash_bucket" if column.levels is None else "categorify with given or shared levels, or buckets,"
            yield f"{name} of {column.source}"
        if column.number_format is not None:
            yield f"the numbers in texts of {column.source}, which schema declares"
    for call in features.program.calls:
        yield f"the custom kernel {call.name}"


def history_ops(features: FittedFeatures) -> Iterator[str]:
    """Yield the ops on events, for targets that have one row."""
    from gpupipe.features.ops.content_op import ContentOp

    ops = () if features.derivation is None else features.derivation.ops
    yield from (f"{op.title()}, which reads events" for op in ops if not isinstance(op, ContentOp))


def _of_estimator(estimator: FittedModel, networks: Mapping[int, Any] | None) -> Iterator[str]:
    for model in single_models(estimator):
        name = type(model.estimator).__name__ if model.library == "scikit-learn" else f"this {model.library} model"
        if model.library in NETWORKS and networks is None:
            yield "a network"
        elif model.library in NETWORKS and id(model) not in (networks or {}):
            yield "a network without estimator.onnx: pip install onnx onnxruntime, and run again"
        elif not is_writable(model):
            yield f"the estimator {name}"


def omitted_parts(model: Model) -> Iterator[str]:
    """Yield what a model does and an exported file does not."""
    if model.decision.has_intervals:
        yield "prediction sets" if model.goal.has_classes else "prediction intervals"
    if model.rules:
        yield RULES
