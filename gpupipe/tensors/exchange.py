"""Zero-copy conversion between array libraries.

No copy is made unless the caller passes ``copy=True``: if one is needed, the error gives the reason.
`gpupipe.tensors.handover.hand_over` also returns the receipt.

Streams: gpupipe's kernels, cuDF and cuML run on the device's default stream. Before a hand-over on a device, CuPy's
current stream waits for the default stream; under the DLPack protocol, the receiving library's stream then waits for
CuPy's. The host does not wait, except for TensorFlow, which ignores streams. The memory is freed with the last tensor
that uses it: as everywhere on a device, keep a reference until all streams have finished with it.
"""

from __future__ import annotations

from typing import Any

from gpupipe.errors import DataError
from gpupipe.tensors.array_view import view
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.handover_obstacles import ZeroCopyObstacle


def to_torch(X: Any, copy: bool = False) -> Any:
    """Return `X` as a ``torch.Tensor`` with the same memory, shape, strides, dtype and device.

    A write to one is visible in the other.

    Parameters
    ----------
    X : array or TensorBatch
        A NumPy, CuPy, JAX or TensorFlow array; a pyarrow Array, ChunkedArray, Table, RecordBatch or Tensor; any object
        with ``__dlpack__`` or ``__cuda_array_interface__``; or a `TensorBatch`, whose arrays are all converted.
    copy : bool
        Make exactly one copy, which only the tensor uses.

    Returns
    -------
    torch.Tensor or TensorBatch

    Raises
    ------
    DataError
        If a copy is needed: `X` is read-only, or has nulls, several chunks or negative strides.
    ConfigError
        If `X` is not an array, or PyTorch is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import gpupipe as gp
    >>> X = np.zeros((3, 2), "float32", order="F")
    >>> tensor = gp.to_torch(X)
    >>> tensor[0, 1] = 7
    >>> float(X[0, 1])
    7.0
    """
    return _to(X, "torch", copy)


def to_jax(X: Any, copy: bool = False) -> Any:
    """Return `X` as a ``jax.Array`` with the same memory, shape, dtype and device.

    JAX requires memory without gaps that starts at a multiple of 64 bytes, and 64-bit dtypes only if
    ``jax_enable_x64`` is set. It assumes that its arrays are immutable: do not write to `X` while the JAX array is in
    use.

    Parameters
    ----------
    X : array or TensorBatch
        As for `to_torch`.
    copy : bool
        Make exactly one copy, which only the JAX array uses.

    Returns
    -------
    jax.Array or TensorBatch

    Raises
    ------
    DataError
        If a copy is needed: `X` has gaps or is not aligned, or for a reason given at `to_torch`.
    ConfigError
        If `X` is not an array, or JAX is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import gpupipe as gp
    >>> gp.to_jax(np.array([1.5, 2.5], "float32"), copy=True)
    Array([1.5, 2.5], dtype=float32)
    """
    return _to(X, "jax", copy)


def to_tensorflow(X: Any, copy: bool = False) -> Any:
    """Return `X` as a ``tf.Tensor`` with the same memory, shape, dtype and device.

    TensorFlow takes row-major memory only, so gpupipe's column-major feature matrix needs ``copy=True``. It assumes
    that its tensors are immutable: do not write to `X` while the tensor is in use.

    Parameters
    ----------
    X : array or TensorBatch
        As for `to_torch`.
    copy : bool
        Make exactly one copy, row-major, which only the tensor uses.

    Returns
    -------
    tf.Tensor or TensorBatch

    Raises
    ------
    DataError
        If a copy is needed: `X` is not row-major, or for a reason given at `to_torch`.
    ConfigError
        If `X` is not an array, or TensorFlow is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import gpupipe as gp
    >>> X = np.array([[1.5, 2.5]], "float32", order="F")
    >>> gp.to_tensorflow(X, copy=True).numpy()
    array([[1.5, 2.5]], dtype=float32)
    """
    return _to(X, "tensorflow", copy)


def from_dlpack(tensor: Any) -> Any:
    """Return a tensor of any library as an array over the same memory: NumPy on the host, CuPy on a device.

    Parameters
    ----------
    tensor : array
        As for `to_torch`; a PyTorch tensor too.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        On the host it is read-only if its owner treats the memory as immutable: JAX, TensorFlow and immutable Arrow
        buffers.
        CuPy has no read-only arrays: do not write to an immutable tensor on a device.

    Raises
    ------
    DataError
        If the values are not stored as one array: the tensor has nulls, several chunks or a mask.
    ConfigError
        If it is not an array.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import gpupipe as gp
    >>> gp.from_dlpack(pa.array([1.5, 2.5]))
    array([1.5, 2.5])
    """
    try:
        return view(tensor).array
    except ZeroCopyObstacle as obstacle:
        kind = f"{type(tensor).__module__.partition('.')[0]}.{type(tensor).__qualname__}"
        raise DataError(f"cannot view a {kind} as an array: it {obstacle.reason}", fix=obstacle.fix) from obstacle


def _to(X: Any, library: str, copy: bool) -> Any:
    return X.to(library, copy) if isinstance(X, TensorBatch) else hand_over(X, library, copy)[0]
