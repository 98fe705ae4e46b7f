"""Lazy functions of the partitions of Dask DataFrames. They need no cluster: any scheduler of Dask computes them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from gpupipe.backends import choose, device_report
from gpupipe.backends.base import Backend
from gpupipe.dask.arrays import empty_array
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.io.in_memory import InMemoryTable
from gpupipe.typing import Array


def map_frames(
    collection: Any, function: Callable[..., Any], value: Any, token: str, *arguments: Any, meta: Any
) -> Any:
    """Return ``function(frame, value, *arguments)`` of each partition, as a collection of the kind of `meta`.

    `value` is sent to each worker once; `token` identifies it in the names of the tasks. `meta` is an empty result.
    Divisions are those of the collection; the rows of an array are unknown.
    """
    import dask

    # Not traversed: the fields of a dataclass would be sent one by one.
    sent = dask.delayed(value, name=f"gpupipe-{token}", traverse=False)
    return collection.map_partitions(function, sent, *arguments, meta=meta, enforce_metadata=False)


def partition_backend(device: str) -> Backend:
    """Return the backend for a partition, in the process that computes it: that of a worker is made once."""
    if "distributed" not in sys.modules:
        return choose(device)
    from distributed import get_worker

    from gpupipe.dask.worker_process import WorkerSettings, backend_of

    try:
        is_thread = get_worker().address.startswith("inproc://")
    except ValueError:  # another scheduler, in the process of the caller
        is_thread = True
    if is_thread:
        return choose(device)
    on_gpu = device == "gpu" or (device == "auto" and not device_report().gpu_obstacle)
    return backend_of(WorkerSettings("gpu" if on_gpu else "cpu"))


def warn_client(text: str) -> None:
    """Issue a warning in this process; from a worker, in its clients too."""
    if "distributed" not in sys.modules:
        warnings.warn(text, stacklevel=2)
        return
    from distributed import warn

    warn(text)


def is_on_gpu(collection: Any) -> bool:
    """Return whether the partitions are frames of cuDF."""
    return type(collection._meta).__module__.partition(".")[0] == "cudf"


def index_of(frame: Any) -> Any:
    """Return the index of a partition as one of pandas."""
    index = frame.index
    return index.to_pandas() if hasattr(index, "to_pandas") else index


def transform_frame(features: FittedFeatures, collection: Any, device: str) -> Any:
    """Return the feature matrix of a Dask DataFrame, lazily, as a Dask array with a chunk per partition.

    Chunks are NumPy arrays; CuPy arrays for partitions of cuDF.
    """
    from dask.base import tokenize

    on_gpu = is_on_gpu(collection)
    meta = empty_array("gpu" if on_gpu else "cpu", 2, "float32")
    meta = meta.reshape(0, len(features.names))
    token = tokenize(features.program, features.schema, features.derivation)
    return map_frames(collection, _transform, features, token, device, on_gpu, meta=meta)


def _transform(frame: Any, features: FittedFeatures, device: str, on_gpu: bool) -> Array:
    backend = partition_backend(device)
    matrix = features.transform(features.encode(InMemoryTable.of(frame).table, backend), backend)
    return matrix if on_gpu else backend.to_host(matrix.T).T  # the transpose is row-major
