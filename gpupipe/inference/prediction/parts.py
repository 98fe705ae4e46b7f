"""Parts of a checked model directory that predictions need. Importable without Arrow, for servers of single rows."""

from __future__ import annotations

from dataclasses import dataclass

from gpupipe.artifact import ArtifactReader
from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.model_parts.decision import Decision
from gpupipe.model_parts.feature_files import read_features
from gpupipe.model_parts.goal import Goal
from gpupipe.model_parts.part_checks import check_agreement, read_decision, read_goal, read_importances
from gpupipe.model_parts.part_shapes import check_manifest
from gpupipe.model_parts.user_code import read_kernels
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.load import load_fitted
from gpupipe.rules.model_rules import ServedRules


@dataclass(frozen=True)
class ModelParts:
    """Parts of a model; attributes as in `gpupipe.Model`."""

    features: FittedFeatures
    goal: Goal
    decision: Decision
    rules: tuple[ServedRules, ...]
    estimator: FittedModel


def read_parts(reader: ArtifactReader, allow_code: bool) -> ModelParts:
    """Return the parts of a model directory, after checking every entry of its manifest and that the parts agree.

    Raise ArtifactError if an entry or a part is invalid, or the model contains code and `allow_code` is false.
    """
    manifest = reader.manifest
    check_manifest(manifest, reader.folder)
    with refuse_failures("cannot read the model", str(reader.folder), "export it again"):
        features = read_features(reader, read_kernels(reader, allow_code))
        goal = read_goal(manifest)
        decision = read_decision(manifest["decision"], goal)
        read_importances(manifest.get("importances"))
        rules = tuple(map(ServedRules.from_json, manifest["data"]))
        estimator = load_fitted(reader, manifest["estimator"])
        check_agreement(goal, features.features, estimator)
    return ModelParts(features, goal, decision, rules, estimator)
