"""Device memory: one allocator for all libraries, and free memory.

cuDF, CuPy, cuML and Numba allocate through RMM, and so does PyTorch unless it has allocated before. RMM's default here
is the driver's default memory pool, the only pool that XGBoost's wheels can use; two pools would compete for memory,
each caching what it has freed. This module also orders data that is handed to another library: kernels run on the
default stream, whatever CuPy's current stream is.
"""

from __future__ import annotations

from typing import Any

from gpupipe.backends.base import DeviceOptions

STEP = 256  # bytes: pool sizes are multiples of it
KEEP_ALL = 2**64 - 1  # release threshold in bytes: RMM's default; the driver's is 0, which unmaps at every wait


def set_up(options: DeviceOptions) -> None:
    """Set the device's allocator for this process, with statistics.

    It is set once: freeing existing arrays through another allocator would corrupt memory. A process that already has
    an allocator, from gpupipe or dask-cuda, keeps it.
    """
    import cupy
    import rmm
    from rmm.allocators.cupy import rmm_cupy_allocator

    found = rmm.mr.get_current_device_resource()
    if not isinstance(found, rmm.mr.StatisticsResourceAdaptor):
        nobodys = type(found) is rmm.mr.CudaMemoryResource  # RMM's initial resource
        rmm.mr.set_current_device_resource(rmm.mr.StatisticsResourceAdaptor(_resource(options) if nobodys else found))
        cupy.cuda.set_allocator(rmm_cupy_allocator)
    if options.spill:
        import cudf

        cudf.set_option("spill", True)


def free_bytes(limit: int | None) -> int:
    """Return the bytes that can still be allocated on the device, at most `limit`.

    The driver counts the memory reserved by its pool as used; the unused part of it is added. Unused memory of RMM's
    own pools (``allocator: pool`` or ``managed``, or that of a dask-cuda worker) is unknown and not added.
    """
    import rmm

    free: int = rmm.mr.available_device_memory()[0]
    pool = _driver_pool()
    if pool is not None:
        from cupy.cuda import runtime

        reserved = runtime.memPoolGetAttribute(pool, runtime.cudaMemPoolAttrReservedMemCurrent)
        free += reserved - runtime.memPoolGetAttribute(pool, runtime.cudaMemPoolAttrUsedMemCurrent)
    return free if limit is None else min(free, limit)


def share_with_xgboost() -> bool:
    """Make XGBoost allocate from the same memory in this thread; return False if it keeps its own allocator.

    Conda builds support RMM. Wheels do not, but can use the device's default pool, which RMM uses unless another
    ``allocator`` was chosen. XGBoost's settings are per thread: call this in the thread that trains.
    """
    import xgboost

    if xgboost.build_info().get("USE_RMM", False):
        xgboost.set_config(use_rmm=True)
        return True
    can = _driver_pool() is not None and "use_cuda_async_pool" in xgboost.get_config()
    if can:
        xgboost.set_config(use_cuda_async_pool=True)
    return can


def torch_allocator() -> Any:
    """Return RMM as an allocator for PyTorch, which must be able to use CUDA."""
    from rmm.allocators.torch import rmm_torch_allocator

    return rmm_torch_allocator


def as_cupy(array: Any) -> Any:
    """Return a device array of any library as a CuPy array on the same memory.

    With DLPack, CuPy's current stream waits for the producer. With ``__cuda_array_interface__``, the host waits if the
    array has a stream.
    """
    import cupy

    if isinstance(array, cupy.ndarray):
        return array
    return cupy.from_dlpack(array) if hasattr(array, "__dlpack__") else cupy.asarray(array)


def wait_for_kernels() -> None:
    """Make CuPy's current stream, which copies and hands over, wait for the default stream."""
    import cupy

    cupy.cuda.get_current_stream().wait_event(cupy.cuda.Stream.null.record())


def finish() -> None:
    """Wait on the host for CuPy's current stream."""
    import cupy

    cupy.cuda.get_current_stream().synchronize()


def _resource(options: DeviceOptions) -> Any:
    import rmm

    limit, initial = options.limit, _whole(options.initial_pool)
    if options.allocator in ("pool", "managed"):
        upstream = rmm.mr.ManagedMemoryResource() if options.allocator == "managed" else rmm.mr.CudaMemoryResource()
        if initial is None and limit is not None:  # RMM's default is half of the free memory, and it raises
            initial = _whole(min(limit, rmm.mr.available_device_memory()[0] // 2))  # if that exceeds the limit
        return rmm.mr.PoolMemoryResource(upstream, initial_pool_size=initial, maximum_pool_size=_whole(limit))
    resource = _default_pool(initial) if options.allocator == "async" else rmm.mr.CudaMemoryResource()
    return resource if limit is None else rmm.mr.LimitingResourceAdaptor(resource, limit)


def _default_pool(initial: int | None) -> Any:
    """Return the device's default pool as an RMM resource with `initial` bytes."""
    import rmm
    from cuda.bindings.runtime import cudaMemPool_t
    from cupy.cuda import runtime

    pool = runtime.deviceGetDefaultMemPool(runtime.getDevice())
    runtime.memPoolSetAttribute(pool, runtime.cudaMemPoolAttrReleaseThreshold, KEEP_ALL)
    resource = rmm.mr.CudaAsyncViewMemoryResource(cudaMemPool_t(pool))
    if initial is not None:
        resource.deallocate(resource.allocate(initial), initial)  # the pool caches it
    return resource


def _driver_pool() -> int | None:
    """Return the handle of the driver's pool from which RMM allocates, or None if it uses another allocator."""
    import rmm

    resource = rmm.mr.get_current_device_resource()
    while not isinstance(resource, rmm.mr.CudaAsyncViewMemoryResource):
        if not hasattr(resource, "upstream_mr"):
            return None
        resource = resource.upstream_mr
    handle: int = resource.pool_handle()
    return handle


def _whole(size: int | None) -> int | None:
    return None if size is None else size // STEP * STEP
