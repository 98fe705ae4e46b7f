"""A trained model from its files, which may come from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpupipe.errors import ArtifactError
from gpupipe.models.description import Description
from gpupipe.models.fitted import FittedModel
from gpupipe.models.fitted_linear import FittedLinear
from gpupipe.models.fitted_sklearn import FittedSklearn
from gpupipe.models.fitted_xgboost import FittedXGBoost
from gpupipe.models.neural.loading import load_network

# What one file holds. Not a network: that is several files, and what is installed decides which of them is read.
KINDS: tuple[type[FittedXGBoost | FittedLinear | FittedSklearn], ...] = (FittedXGBoost, FittedLinear, FittedSklearn)


def load_fitted(folder: str | Path, description: dict[str, Any]) -> FittedModel:
    """Return the model that `FittedModel.save` wrote into `folder`.

    Only the library of that model is imported: scikit-learn and skops, XGBoost, PyTorch, or ONNX Runtime.

    Raises
    ------
    ArtifactError
        If the file is missing, damaged, of an unknown library, holds a type that no model of ours has, or an estimator
        that does not do what the description says.
    ConfigError
        If the model is a network, and neither PyTorch nor ONNX Runtime is installed.
    """
    try:
        said = Description.of(description)
    except ValueError as error:
        raise _no_model(str(error), Path(folder)) from None
    library = description.get("library")
    if library == "torch":
        return load_network(Path(folder), description)
    kind = next((kind for kind in KINDS if kind.library == library), None)
    if kind is None:
        raise ArtifactError(f"the model is of an unknown library, {library!r}", where=str(folder), fix="update gpupipe")
    path = Path(folder) / kind.file
    if not path.is_file():
        raise ArtifactError("the estimator's file is missing", where=str(path), fix="export the model again")
    try:
        estimator = kind.read(path, said)
    except ValueError as error:
        raise _no_model(f"{path.name} is no sound estimator of this model: {error}", path) from error
    return kind(estimator, said.task, said.feature_names, said.n_classes, said.classes)


def _no_model(problem: str, where: Path) -> ArtifactError:
    return ArtifactError(problem, where=str(where), fix="export the model again")
