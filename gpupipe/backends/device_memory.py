"""One allocator for everything that allocates on the device, and its statistics.

CuPy, cuDF and cuML allocate through RMM; PyTorch and XGBoost are told to, where they can. Whoever allocates by itself
would fight with the others over the same memory, each with a pool of its own. What is handed to another library is
ordered here too: kernels are launched on the default stream, whatever stream is CuPy's current one.
"""

from __future__ import annotations

from typing import Any

from gpupipe.backends.base import DeviceOptions

STEP = 256  # bytes: the sizes of pools are multiples of it


def set_up(options: DeviceOptions) -> None:
    """Set the device's allocator for this process, with statistics.

    It is set once: arrays that exist already would be given back to an allocator that does not know them. A process
    that has one already, gpupipe's or the pool of a worker of dask-cuda, keeps it.
    """
    import cupy
    import rmm
    from rmm.allocators.cupy import rmm_cupy_allocator

    found = rmm.mr.get_current_device_resource()
    if not isinstance(found, rmm.mr.StatisticsResourceAdaptor):
        nobodys = type(found) is rmm.mr.CudaMemoryResource  # what RMM begins with
        rmm.mr.set_current_device_resource(rmm.mr.StatisticsResourceAdaptor(_resource(options) if nobodys else found))
        cupy.cuda.set_allocator(rmm_cupy_allocator)
    if options.spill:
        import cudf

        cudf.set_option("spill", True)


def share_with_xgboost() -> bool:
    """Let XGBoost allocate through RMM too, and return whether it can: most of its builds cannot."""
    import xgboost

    can: bool = xgboost.build_info().get("USE_RMM", False)
    if can:
        xgboost.set_config(use_rmm=True)
    return can


def torch_allocator() -> Any:
    """Return RMM as an allocator for PyTorch, which must be able to use CUDA."""
    from rmm.allocators.torch import rmm_torch_allocator

    return rmm_torch_allocator


def as_cupy(array: Any) -> Any:
    """Return an array of the device, of any library, as one of CuPy over the same memory.

    By DLPack, CuPy's current stream waits for what makes it; without, by ``__cuda_array_interface__``, the host does
    where the array names its stream.
    """
    import cupy

    if isinstance(array, cupy.ndarray):
        return array
    return cupy.from_dlpack(array) if hasattr(array, "__dlpack__") else cupy.asarray(array)


def wait_for_kernels() -> None:
    """Have CuPy's current stream, which copies and hands over, wait for what the default stream has to do."""
    import cupy

    cupy.cuda.get_current_stream().wait_event(cupy.cuda.Stream.null.record())


def finish() -> None:
    """Wait, on the host, for what CuPy's current stream was told to do."""
    import cupy

    cupy.cuda.get_current_stream().synchronize()


def _resource(options: DeviceOptions) -> Any:
    import rmm

    limit, initial = options.limit, _whole(options.initial_pool)
    if options.allocator in ("pool", "managed"):
        upstream = rmm.mr.ManagedMemoryResource() if options.allocator == "managed" else rmm.mr.CudaMemoryResource()
        if initial is None and limit is not None:  # by itself RMM begins with half of what is free, and refuses more
            initial = _whole(min(limit, rmm.mr.available_device_memory()[0] // 2))  # than the limit
        return rmm.mr.PoolMemoryResource(upstream, initial_pool_size=initial, maximum_pool_size=_whole(limit))
    if options.allocator == "async":
        resource = rmm.mr.CudaAsyncMemoryResource(initial_pool_size=initial)
    else:
        resource = rmm.mr.CudaMemoryResource()
    return resource if limit is None else rmm.mr.LimitingResourceAdaptor(resource, limit)


def _whole(size: int | None) -> int | None:
    return None if size is None else size // STEP * STEP
