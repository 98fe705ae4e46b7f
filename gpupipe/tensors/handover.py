"""Hand-over of one array to another library: zero-copy, or with exactly one copy on request."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gpupipe.errors import ConfigError, DataError, did_you_mean
from gpupipe.tensors.array_view import ArrayView, copy_values, view
from gpupipe.tensors.handover_obstacles import READ_ONLY, ZeroCopyObstacle, pointer
from gpupipe.tensors.libraries import LIBRARIES, TensorLibrary
from gpupipe.tensors.receipt import Receipt


def hand_over(X: Any, library: str, copy: bool = False) -> tuple[Any, Receipt]:
    """Return `X` as a tensor of `library`, and the receipt of the hand-over.

    Raise DataError if it cannot be done without a copy (or with one); the message gives the reason; ConfigError if `X`
    is not an array, or the library is unknown or not installed.

    - `X`: a NumPy, CuPy, PyTorch, JAX or TensorFlow array; a pyarrow Array, ChunkedArray, Table, RecordBatch or Tensor;
      or any object with ``__dlpack__`` or ``__cuda_array_interface__``
    - `library`: {"torch", "jax", "tensorflow", "numpy"}
    - `copy`: false: the tensor shares the memory of `X`, with its dtype, strides and device, or DataError is raised.
      True: the tensor gets new memory by exactly one copy; the dtype stays.

    Returns
    -------
    tensor
        It keeps its memory alive even after `X` is deleted.
    """
    target = _target(library)
    if not copy and target.owns(X):
        return X, Receipt(library, **target.facts(X), copied=False)
    reason = _reason(X, target, copy)
    try:
        array = _own(X, target) if copy else view(X).array
    except ZeroCopyObstacle as obstacle:
        raise _refusal(X, target, obstacle) from obstacle
    tensor = target.take(array)
    receipt = Receipt(library, **target.facts(tensor), copied=copy, reason=reason)
    if not copy and array.size and receipt.pointer != pointer(array):
        raise _refusal(X, target, ZeroCopyObstacle(f"was copied by {library}"))
    return tensor, receipt


def _target(library: str) -> TensorLibrary:
    if library not in LIBRARIES:
        hint = did_you_mean(library, LIBRARIES) or f"one of {', '.join(LIBRARIES)}"
        raise ConfigError(f"unknown tensor library {library!r}", fix=hint)
    return LIBRARIES[library]


def _reason(X: Any, target: TensorLibrary, copy: bool) -> str:
    """Return the obstacle to a zero-copy hand-over, "" without one; raise DataError if no copy may or can remove it."""
    try:
        target.demand(view(X))
    except ZeroCopyObstacle as obstacle:
        if copy and obstacle.copy_helps:
            return obstacle.reason
        raise _refusal(X, target, obstacle) from obstacle
    return ""


def _own(X: Any, target: TensorLibrary) -> Any:
    array = copy_values(X, target.order, target.host_only)
    target.demand(ArrayView(array, read_only=False))
    return array


def _refusal(X: Any, target: TensorLibrary, obstacle: ZeroCopyObstacle) -> DataError:
    condition = " without a copy" if obstacle.copy_helps else ""
    kind = type(X)
    package = kind.__module__.partition(".")[0]
    name, why = f"{package}.{kind.__qualname__}", ""
    if obstacle.reason == READ_ONLY and _is_unversioned(X):
        why = f"; {package} {_version(package)} hands over DLPack before version 1.0, which NumPy takes as read-only"
    return DataError(f"cannot hand a {name} to {target.name}{condition}: it {obstacle.reason}{why}", fix=obstacle.fix)


def _is_unversioned(X: Any) -> bool:
    """Return whether an array is handed over by a version of DLPack that does not tell whether it may be written to."""
    try:
        return hasattr(X, "__dlpack__") and X.__dlpack__(max_version=(1, 0)) is None
    except TypeError:
        return True
    except (BufferError, RuntimeError, ValueError):
        return False


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(of an unknown version)"
