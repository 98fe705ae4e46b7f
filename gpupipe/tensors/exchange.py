"""Arrays of one library as those of another, over the same memory.

>>> import numpy as np
>>> from gpupipe.tensors.exchange import to_torch
>>> X = np.zeros((3, 2), "float32", order="F")
>>> tensor = to_torch(X)
>>> tensor[0, 1] = 7
>>> float(X[0, 1])
7.0

No copy is made unless it is asked for: where one would be needed, the error says why. `gpupipe.tensors.handover` says
what is accepted, and gives the receipt too.

Streams: gpupipe's kernels, cuDF and cuML are launched on the device's default stream. Before anything on a device is
handed over, CuPy's current stream is told to wait for that one; by the DLPack protocol the stream of the library that
takes it then waits for CuPy's. The host does not wait, but for TensorFlow, which knows nothing of streams.
The memory goes back when the last tensor over it goes: as everywhere on a device, keep one until other streams have
done with it.
"""

from __future__ import annotations

from typing import Any

from gpupipe.errors import DataError
from gpupipe.tensors.array_view import view
from gpupipe.tensors.batch import TensorBatch
from gpupipe.tensors.handover import hand_over
from gpupipe.tensors.handover_obstacles import ZeroCopyObstacle


def to_torch(X: Any, copy: bool = False) -> Any:
    """Return `X` as a ``torch.Tensor``: same memory, strides, dtype and device; writes to one are seen in the other.

    Parameters
    ----------
    X : array or TensorBatch
        As `gpupipe.tensors.handover.hand_over` accepts; of a batch, a batch of tensors.
    copy : bool
        Make exactly one copy, which then belongs to the tensor alone.

    Raises
    ------
    DataError
        If a copy would be needed: `X` is read-only, has nulls or several chunks, negative strides, ...
    ConfigError
        If `X` is no array, or PyTorch is not installed.
    """
    return _to(X, "torch", copy)


def to_jax(X: Any, copy: bool = False) -> Any:
    """Return `X` as a ``jax.Array``; as `to_torch`.

    JAX takes memory without gaps that begins at a multiple of 64 bytes. It believes its arrays immutable: do not write
    to `X` as long as the JAX array is in use.
    """
    return _to(X, "jax", copy)


def to_tensorflow(X: Any, copy: bool = False) -> Any:
    """Return `X` as a ``tf.Tensor``; as `to_torch`.

    TensorFlow takes row-major memory alone, so gpupipe's column-major feature matrix needs ``copy=True``. It believes
    its tensors immutable: do not write to `X` as long as the tensor is in use.
    """
    return _to(X, "tensorflow", copy)


def from_dlpack(tensor: Any) -> Any:
    """Return a tensor of any library as an array over the same memory: of NumPy on the host, of CuPy on a device.

    Parameters
    ----------
    tensor : array
        As `gpupipe.tensors.handover.hand_over` accepts.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Read-only on the host where its owner takes it for unchangeable, as JAX, TensorFlow and some of Arrow do. CuPy
        has nothing like it: there it is for the caller to remember.

    Raises
    ------
    DataError
        If it does not lie in memory as one array.
    ConfigError
        If it is no array.
    """
    try:
        return view(tensor).array
    except ZeroCopyObstacle as obstacle:
        raise DataError(f"no array lies over its memory: it {obstacle.reason}", fix=obstacle.fix) from obstacle


def _to(X: Any, library: str, copy: bool) -> Any:
    return X.to(library, copy) if isinstance(X, TensorBatch) else hand_over(X, library, copy)[0]
