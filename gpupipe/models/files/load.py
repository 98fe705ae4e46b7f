"""A trained model from its files, which may come from anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpupipe.artifact.untrusted.failures import refuse_failures
from gpupipe.errors import ArtifactError
from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import FittedModel, Prediction
from gpupipe.models.fitted.linear import FittedLinear
from gpupipe.models.fitted.scikit_learn import FittedSklearn
from gpupipe.models.fitted.xgboost import FittedXGBoost
from gpupipe.models.neural.files.load import load_network

if TYPE_CHECKING:
    from gpupipe.artifact import ArtifactReader
    from gpupipe.typing import Array

# Models of one file. A network has several, and the installed libraries decide which of them is read.
KINDS: tuple[type[FittedXGBoost | FittedLinear | FittedSklearn], ...] = (FittedXGBoost, FittedLinear, FittedSklearn)


def load_fitted(files: ArtifactReader, description: dict[str, Any]) -> FittedModel:
    """Return the model that `FittedModel.save` wrote.

    Only the library of that model is imported: scikit-learn, XGBoost, PyTorch, or ONNX Runtime.

    Parameters
    ----------
    files : ArtifactReader
        The files of a model directory.
    description : dict
        What `FittedModel.save` returned.

    Raises
    ------
    ArtifactError
        If a file is missing, damaged, of an unknown library, holds a type that no model of ours has, or an estimator
        that does not do what the description says. Whatever a parser raises becomes one.
    LimitError
        If the model does not fit into memory.
    ConfigError
        If the model is a network, and neither PyTorch nor ONNX Runtime is installed.
    """
    try:
        said = Description.of(description)
    except ValueError as error:
        raise ArtifactError(str(error), where=str(files.folder), fix="export the model again") from None
    library = description.get("library")
    if library == "torch":
        with refuse_failures("the network cannot be read", str(files.folder)):
            return load_network(files, said)
    kind = next((kind for kind in KINDS if kind.library == library), None)
    if kind is None:
        what = f"the model is of an unknown library, {library!r:.40}"
        raise ArtifactError(what, where=str(files.folder), fix="update gpupipe")
    where = str(files.folder / kind.file)
    if kind.file not in files.names():
        raise ArtifactError("the estimator's file is missing", where=where, fix="export the model again")
    with refuse_failures(f"{kind.file} is not a sound estimator of this model", where):
        estimator = kind.read(files.read(kind.file), said, where)
    return kind(estimator, said.task, said.feature_names, said.n_classes, said.classes)


def predict_loaded(model: FittedModel, X: Array, where: str) -> Prediction:
    """Return what a loaded model predicts of `X`; a sound file does not imply that its numbers fit together.

    Parameters
    ----------
    model : FittedModel
        From `load_fitted`.
    X : array of float32, shape (n, d)
    where : str
        The model directory, for messages.

    Raises
    ------
    ArtifactError
        If the estimator raises anything, or gives something else than a prediction of its task for each row.
    LimitError
        If memory is short.
    """
    fix = "`gpupipe verify` tells whether it still gives what it gave where it was trained"
    with refuse_failures("the estimator fails on rows that suit its features", where, fix):
        prediction = model.predict(X)
        prediction.check(len(X), model.n_classes)
        return prediction
