"""Loading of trained networks: with PyTorch if it is installed, otherwise with ONNX Runtime or NumPy."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from gpupipe.errors import ArtifactError, ConfigError
from gpupipe.models.files.description import Description
from gpupipe.models.fitted.base import FittedModel
from gpupipe.models.neural.architecture import Architecture
from gpupipe.models.neural.files import architecture as architecture_file

if TYPE_CHECKING:
    from gpupipe.models.files.model_files import ModelFiles


def load_network(files: ModelFiles, expected: Description) -> FittedModel:
    """Return the network that `gpupipe.models.neural.fitted.pytorch.FittedNeural.save` wrote, on the CPU.

    Perceptrons are computed by NumPy if neither library can. Raise ArtifactError if a file is missing or corrupt, or
    belongs to another model; ConfigError for other networks if neither library is installed, or only ONNX Runtime and
    the model has no ONNX file.
    """
    name = architecture_file.NAME
    architecture = architecture_file.read_architecture(_part(files, name), str(files.path(name)), expected)
    if find_spec("torch") is not None and find_spec("safetensors") is not None:
        return _with_torch(files, expected, architecture)
    return _without_torch(files, expected, architecture)


def _with_torch(files: ModelFiles, expected: Description, architecture: Architecture) -> FittedModel:
    from gpupipe.models.neural.files.weights import read_weights
    from gpupipe.models.neural.fitted.pytorch import FittedNeural

    name = FittedNeural.file
    served = read_weights(_part(files, name), str(files.path(name)), architecture, expected.task, expected.targets)
    return FittedNeural(
        served, expected.task, expected.feature_names, expected.n_classes, expected.classes, targets=expected.targets
    )


def _without_torch(files: ModelFiles, expected: Description, architecture: Architecture) -> FittedModel:
    from gpupipe.models.neural.files.tensors import read_tensors
    from gpupipe.models.neural.fitted.numpy_network import KINDS, FittedNumpy, NumpyNetwork
    from gpupipe.models.neural.fitted.onnx import FittedOnnx
    from gpupipe.models.neural.fitted.onnx_runtime import NAME, check_session, open_session

    has_onnx = NAME in files.names()
    kind: type[FittedOnnx] = FittedOnnx
    if has_onnx and find_spec("onnxruntime") is not None:
        where = str(files.path(NAME))
        estimator = open_session(files.read(NAME), where)
        check_session(estimator, where, architecture.n_tokens, architecture.n_outputs)
    elif architecture.kind in KINDS:
        kind, name = FittedNumpy, FittedNumpy.file
        try:
            estimator = NumpyNetwork(read_tensors(_part(files, name)), architecture, expected.task, expected.targets)
        except ValueError as error:
            raise ArtifactError(
                f"{name} does not match the network: {error}", where=str(files.path(name)), fix="export the model again"
            ) from error
    else:
        raise ConfigError(
            "the model is a network and needs PyTorch or ONNX Runtime; neither is installed"
            if has_onnx
            else "the model is a network without an ONNX file and needs PyTorch, which is not installed",
            where=str(files.folder),
            fix="pip install 'gpupipe[torch]'" + (", or pip install onnxruntime" if has_onnx else ""),
        )
    return kind(
        estimator,
        expected.task,
        expected.feature_names,
        expected.n_classes,
        expected.classes,
        architecture=architecture,
        targets=expected.targets,
    )


def _part(files: ModelFiles, name: str) -> bytes:
    if name not in files.names():
        raise ArtifactError(
            f"{files.path(name).name} is missing", where=str(files.folder), fix="export the model again"
        )
    return files.read(name)
