"""estimator.onnx as ONNX Runtime computes it, for machines without PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpupipe.errors import ArtifactError
from gpupipe.models.neural.files.onnx_check import check_onnx

if TYPE_CHECKING:
    from gpupipe.typing import Array

NAME = "estimator.onnx"


def open_session(data: bytes, where: str) -> Any:
    """Return ONNX Runtime's session over the bytes of a file, on the CPU.

    Raises
    ------
    ArtifactError
        If the file is none that ONNX Runtime loads, or reads what is outside of it.
    """
    import onnxruntime

    try:
        check_onnx(data)
    except ValueError as error:
        raise ArtifactError(
            f"{NAME} is no network of ours: {error}", where=where, fix="export the model again"
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is wrong comes as an exception; the log would go to the console
    try:
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base class of their own
        raise ArtifactError(
            f"{NAME} is none that ONNX Runtime loads: {str(error).splitlines()[0]}",
            where=where,
            fix="export the model again, or update onnxruntime",
        ) from error


def check_session(session: Any, where: str, n_columns: int, n_outputs: int) -> None:
    """Verify that a session takes and gives what the model does.

    Raises
    ------
    ArtifactError
        If it does not.
    """
    inputs = [(i.name, i.type, i.shape[1:]) for i in session.get_inputs()]
    outputs = [o.shape[1:] for o in session.get_outputs()]
    if inputs != [("X", "tensor(float)", [n_columns])] or outputs[:1] != [[n_outputs]]:
        raise ArtifactError(
            f"{NAME} takes {inputs} and gives {outputs}, not what this model does",
            where=where,
            fix="export the model again",
        )


def scores(session: Any, rows: Array, n_outputs: int) -> Array:
    """Return the scores of rows, float32, shape (n, d): the first output, shape (n, n_outputs).

    Raises
    ------
    ValueError
        If ONNX Runtime fails, or gives something of another shape.
    """
    import numpy as np

    try:
        found: Array = session.run(None, {"X": np.ascontiguousarray(rows, np.float32)})[0]
    except Exception as error:  # its exceptions have no base class of their own
        raise ValueError(f"ONNX Runtime fails: {str(error).splitlines()[0][:300]}") from error
    if found.shape != (len(rows), n_outputs) or found.dtype.kind != "f":
        raise ValueError(f"ONNX Runtime gives {found.dtype} of shape {found.shape} for {len(rows):,} rows")
    return found
