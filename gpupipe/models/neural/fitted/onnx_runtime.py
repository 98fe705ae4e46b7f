"""ONNX Runtime sessions of estimator.onnx, for machines without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpupipe.errors import ArtifactError
from gpupipe.models.neural.files.onnx_check import check_onnx

if TYPE_CHECKING:
    from gpupipe.typing import Array

NAME = "estimator.onnx"


def open_session(data: bytes, where: str) -> Any:
    """Return an ONNX Runtime session for the content of a file, on the CPU.

    Raise ArtifactError if the file is not a self-contained network of gpupipe, or ONNX Runtime cannot load it.
    """
    import onnxruntime

    try:
        check_onnx(data)
    except ValueError as error:
        raise ArtifactError(
            f"{NAME} is not a network exported by gpupipe: {error}", where=where, fix="export the model again"
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors arrive as exceptions; the log would go to the console
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        raise ArtifactError(
            f"ONNX Runtime cannot load {NAME}: {str(error).splitlines()[0]}",
            where=where,
            fix="export the model again, or update onnxruntime",
        ) from error


def check_session(session: Any, where: str, n_columns: int, n_outputs: int) -> None:
    """Verify that a session has the input and the output of the model.

    Raise ArtifactError if it does not.
    """
    inputs = [(i.name, i.type, i.shape[1:]) for i in session.get_inputs()]
    outputs = [o.shape[1:] for o in session.get_outputs()]
    if inputs != [("X", "tensor(float)", [n_columns])] or outputs[:1] != [[n_outputs]]:
        raise ArtifactError(
            f"{NAME} does not match the model: expected an input X of {n_columns} columns and {n_outputs} outputs; got "
            f"{inputs} and {outputs}",
            where=where,
            fix="export the model again",
        )


def scores(session: Any, rows: Array, n_outputs: int) -> Array:
    """Return the scores of rows, float32, shape (n, d): the first output, shape (n, n_outputs).

    Raise ValueError if ONNX Runtime fails, or returns an array of another shape.
    """
    import numpy as np

    try:
        found: Array = session.run(None, {"X": np.ascontiguousarray(rows, np.float32)})[0]
    except Exception as error:  # ONNX Runtime's exceptions have no common base class
        raise ValueError(f"ONNX Runtime failed: {str(error).splitlines()[0][:300]}") from error
    if found.shape != (len(rows), n_outputs) or found.dtype.kind != "f":
        raise ValueError(
            f"expected floats of shape {(len(rows), n_outputs)} from ONNX Runtime; got {found.dtype} of shape "
            f"{found.shape}"
        )
    return found
