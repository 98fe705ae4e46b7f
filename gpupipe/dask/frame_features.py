"""Feature matrices of Dask DataFrames, computed lazily by features that are fitted."""

from __future__ import annotations

from typing import Any

from gpupipe.dask.arrays import empty_array
from gpupipe.dask.frame_maps import is_on_gpu, map_frames, partition_backend
from gpupipe.features.program.fitted import FittedFeatures
from gpupipe.io.in_memory import InMemoryTable
from gpupipe.typing import Array


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
