"""Device memory: one allocator for all libraries, its peaks, and free memory.

With RMM, which RAPIDS brings, cuDF, CuPy and cuML allocate through RMM, and so does PyTorch unless it has allocated
before. Without RMM, CuPy allocates from the driver's default memory pool. That pool is RMM's default here too, because
it is the only one that XGBoost's wheels can use; two pools would compete for memory, each caching what it has freed.
This module also orders data that is handed to another library: kernels run on the default stream, whatever CuPy's
current stream is.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from typing import Any

from gpupipe.backends.base import DeviceOptions
from gpupipe.backends.probe import INSTALL_RAPIDS, RAPIDS, missing_packages
from gpupipe.errors import DeviceError

STEP = 256  # bytes: pool sizes are multiples of it
KEEP_ALL = 2**64 - 1  # release threshold in bytes: RMM's default; the driver's is 0, which unmaps at every wait
TORCH_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")  # read when PyTorch is imported


class DeviceMemory(ABC):
    """Memory of the device, set up for this process."""

    def __init__(self, options: DeviceOptions) -> None:
        self.options = options

    @property
    @abstractmethod
    def driver_pool(self) -> int | None:
        """The handle of the driver's pool that memory comes from; None with another allocator."""

    @abstractmethod
    def open_stage(self) -> None:
        """Start measuring the peak of a stage; stages may be nested."""

    @abstractmethod
    def close_stage(self) -> int | None:
        """Return the peak of the innermost stage in bytes, with what was allocated before it; None if unknown."""

    @abstractmethod
    def torch_allocator(self) -> Any:
        """Return an allocator for PyTorch, which must be able to use CUDA; None if PyTorch must have its own."""

    def free_bytes(self) -> int:
        """Return the bytes that can still be allocated on the device, at most the limit of the options.

        The driver counts the memory reserved by its pool as used; the unused part of it is added. Unused memory of
        RMM's own pools (``allocator: pool`` or ``managed``, or that of a dask-cuda worker) is unknown and not added.
        """
        from cupy.cuda import runtime

        free: int = runtime.memGetInfo()[0]
        pool, limit = self.driver_pool, self.options.limit
        if pool is not None:
            reserved = runtime.memPoolGetAttribute(pool, runtime.cudaMemPoolAttrReservedMemCurrent)
            free += reserved - runtime.memPoolGetAttribute(pool, runtime.cudaMemPoolAttrUsedMemCurrent)
        return free if limit is None else min(free, limit)

    def share_with_xgboost(self) -> bool:
        """Make XGBoost allocate from the same memory in this thread; return False if it keeps its own allocator.

        Conda builds support RMM. Wheels do not, but can use the device's default pool. XGBoost's settings are per
        thread: call this in the thread that trains.
        """
        import xgboost

        can = self.driver_pool is not None and "use_cuda_async_pool" in xgboost.get_config()
        if can:
            xgboost.set_config(use_cuda_async_pool=True)
        return can


class RmmMemory(DeviceMemory):
    """Memory of RMM, with its statistics.

    It is set up once: freeing existing arrays through another allocator would corrupt memory. A process that already
    has an allocator, from gpupipe or dask-cuda, keeps it.
    """

    def __init__(self, options: DeviceOptions) -> None:
        import cupy
        import rmm
        from rmm.allocators.cupy import rmm_cupy_allocator

        super().__init__(options)
        self._held: list[int] = []  # bytes allocated before each open stage
        found = rmm.mr.get_current_device_resource()
        if not isinstance(found, rmm.mr.StatisticsResourceAdaptor):
            nobodys = type(found) is rmm.mr.CudaMemoryResource  # RMM's initial resource
            chosen = _resource(options) if nobodys else found
            rmm.mr.set_current_device_resource(rmm.mr.StatisticsResourceAdaptor(chosen))
            cupy.cuda.set_allocator(rmm_cupy_allocator)
        if options.spill:
            import cudf

            cudf.set_option("spill", True)

    @property
    def driver_pool(self) -> int | None:
        import rmm

        resource = rmm.mr.get_current_device_resource()
        while not isinstance(resource, rmm.mr.CudaAsyncViewMemoryResource):
            if not hasattr(resource, "upstream_mr"):
                return None
            resource = resource.upstream_mr
        handle: int = resource.pool_handle()
        return handle

    def open_stage(self) -> None:
        from rmm.statistics import push_statistics

        before = push_statistics()  # of the outer stage: RMM's counters begin each stage with 0
        self._held.append((0 if before is None else before.current_bytes) + sum(self._held[-1:]))

    def close_stage(self) -> int | None:
        from rmm.statistics import pop_statistics

        found, held = pop_statistics(), self._held.pop()
        return None if found is None else held + int(found.peak_bytes)

    def torch_allocator(self) -> Any:
        from rmm.allocators.torch import rmm_torch_allocator

        return rmm_torch_allocator

    def share_with_xgboost(self) -> bool:
        import xgboost

        if xgboost.build_info().get("USE_RMM", False):
            xgboost.set_config(use_rmm=True)
            return True
        return super().share_with_xgboost()


class CupyMemory(DeviceMemory):
    """Memory of CuPy in the driver's default pool of the current device, with the statistics of the pool.

    CuPy's ``MemoryAsyncPool`` is not used: its ``set_limit`` sets the release threshold, not a limit, and it creates a
    context on every visible GPU (checked: CuPy 14.2). A PyTorch that is imported later allocates from the pool too.
    Raise DeviceError if an option needs RAPIDS, or the GPU has no memory pools.
    """

    def __init__(self, options: DeviceOptions) -> None:
        import cupy
        from cupy.cuda import runtime

        super().__init__(options)
        self._peaks: list[int] = []  # of the open stages
        device = runtime.getDevice()
        if not runtime.deviceGetAttribute(runtime.cudaDevAttrMemoryPoolsSupported, device):
            fix = f"set gpu.allocator: cuda, which needs RMM: {INSTALL_RAPIDS}, or run with --device cpu"
            raise DeviceError("the driver has no memory pools for this GPU", where="gpu.allocator: async", fix=fix)
        self._pool = _default_pool(device)
        cupy.cuda.set_allocator(self._allocate)
        if options.initial_pool is not None:
            self._allocate(options.initial_pool)  # freed at once, and cached by the pool
        if "torch" not in sys.modules and not any(name in os.environ for name in TORCH_SETTINGS):
            os.environ[TORCH_SETTINGS[0]] = "backend:cudaMallocAsync"

    @property
    def driver_pool(self) -> int | None:
        return self._pool

    def open_stage(self) -> None:
        self._take_peak()
        self._peaks.append(self._used())

    def close_stage(self) -> int | None:
        self._take_peak()
        peak = self._peaks.pop()
        self._peaks[-1:] = [max(outer, peak) for outer in self._peaks[-1:]]
        return peak

    def torch_allocator(self) -> Any:
        return None

    def _take_peak(self) -> None:
        """Add the pool's peak to the innermost stage and restart it."""
        from cupy.cuda import runtime

        found = max(runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrUsedMemHigh), self._used())
        self._peaks[-1:] = [max(known, found) for known in self._peaks[-1:]]
        runtime.memPoolSetAttribute(self._pool, runtime.cudaMemPoolAttrUsedMemHigh, 0)

    def _used(self) -> int:
        from cupy.cuda import runtime

        return int(runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrUsedMemCurrent))

    def _allocate(self, size: int) -> Any:
        """Return `size` bytes of the pool; its limit counts what XGBoost and PyTorch hold in it, too."""
        from cupy.cuda import malloc_async

        limit = self.options.limit
        if limit is not None and (used := self._used()) + size > limit:
            raise MemoryError(f"{size:,} bytes for an array, with {used:,} of {limit:,} bytes (gpu.limit) in use")
        return malloc_async(size)


def set_up(options: DeviceOptions) -> DeviceMemory:
    """Set the device's allocator for this process: RMM where it is installed, else CuPy on the driver's pool.

    Raise DeviceError if an option needs a package that is not installed.
    """
    missing = missing_packages(RAPIDS)
    wanted = [("rmm", f"gpu.allocator: {options.allocator}")] * (options.allocator != "async")
    wanted += [("cudf", "gpu.spill: true")] * options.spill
    for package, setting in wanted:
        if package in missing:
            what = f"{setting} needs {package}, which is not installed"
            raise DeviceError(what, where="gpu", fix=f"remove the setting, or {INSTALL_RAPIDS}")
    return CupyMemory(options) if "rmm" in missing else RmmMemory(options)


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
    from cuda.bindings.runtime import cudaMemPool_t
    from cupy.cuda import runtime

    limit, initial = options.limit, _whole(options.initial_pool)
    if options.allocator in ("pool", "managed"):
        upstream = rmm.mr.ManagedMemoryResource() if options.allocator == "managed" else rmm.mr.CudaMemoryResource()
        if initial is None and limit is not None:  # RMM's default is half of the free memory, and it raises
            initial = _whole(min(limit, runtime.memGetInfo()[0] // 2))  # if that exceeds the limit
        return rmm.mr.PoolMemoryResource(upstream, initial_pool_size=initial, maximum_pool_size=_whole(limit))
    resource = rmm.mr.CudaMemoryResource()
    if options.allocator == "async":
        resource = rmm.mr.CudaAsyncViewMemoryResource(cudaMemPool_t(_default_pool(runtime.getDevice())))
        if initial is not None:
            resource.deallocate(resource.allocate(initial), initial)  # the pool caches it
    return resource if limit is None else rmm.mr.LimitingResourceAdaptor(resource, limit)


def _default_pool(device: int) -> int:
    """Return the handle of the driver's default pool of a device, which from now on keeps freed memory."""
    from cupy.cuda import runtime

    pool: int = runtime.deviceGetDefaultMemPool(device)
    runtime.memPoolSetAttribute(pool, runtime.cudaMemPoolAttrReleaseThreshold, KEEP_ALL)
    return pool


def _whole(size: int | None) -> int | None:
    return None if size is None else size // STEP * STEP
