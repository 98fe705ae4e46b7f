"""Set-up of device memory, on test doubles of RMM, CuPy's runtime and XGBoost over a pool that counts bytes.

The names of the real libraries are checked by `tests/tools/gpu_api`, the real allocator by `tests/gpu/test_memory.py`.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpupipe.backends.base import DeviceOptions
from gpupipe.backends.gpu.memory import free_bytes, set_up, share_with_xgboost
from gpupipe.units import GIB

pytest.importorskip("cuda.bindings.runtime", reason="cuda-bindings comes with numba-cuda, on Linux")
TOTAL, POOL = 80 * GIB, 0xBEEF
ATTRIBUTES = {"ReleaseThreshold": 4, "ReservedMemCurrent": 5, "UsedMemCurrent": 7}  # as CUDA numbers them


class Resource:
    """Any memory resource of RMM, with the arguments that it was made with."""

    def __init__(self, upstream_mr: Resource | None = None, *arguments: Any, **named: Any) -> None:
        self.arguments = (*arguments, *named.values())
        if upstream_mr is not None:
            self.upstream_mr = upstream_mr


class CudaMemoryResource(Resource): ...


class ManagedMemoryResource(Resource): ...


class CudaAsyncMemoryResource(Resource): ...


class PoolMemoryResource(Resource): ...


class StatisticsResourceAdaptor(Resource): ...


class LimitingResourceAdaptor(Resource): ...


class Machine:
    """A device of 80 GiB: its default pool, RMM's current resource and the settings of XGBoost."""

    def __init__(self) -> None:
        self.attributes = dict.fromkeys(ATTRIBUTES.values(), 0)
        self.resource: Resource = CudaMemoryResource()
        self.xgboost: dict[str, Any] = {"verbosity": 1, "use_rmm": False, "use_cuda_async_pool": False}
        self.has_rmm_in_xgboost = False

    def allocate(self, size: int) -> None:
        self.attributes[7] += size
        self.attributes[5] = max(self.attributes[5], self.attributes[7])

    def free(self, size: int) -> None:
        self.attributes[7] -= size  # with a release threshold, the pool keeps what it has reserved
        if not self.attributes[4]:
            self.attributes[5] = self.attributes[7]

    def chain(self) -> list[str]:
        """Return the resources from the one in use down."""
        found, resource = [], self.resource
        while True:
            found.append(type(resource).__name__)
            if not hasattr(resource, "upstream_mr"):
                return found
            resource = resource.upstream_mr


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return the device whose libraries are imported."""
    here = Machine()

    class CudaAsyncViewMemoryResource(Resource):
        def __init__(self, pool_handle: Any) -> None:
            super().__init__()
            self.handle = int(pool_handle)

        def pool_handle(self) -> int:
            return self.handle

        def allocate(self, nbytes: int, stream: Any = None) -> int:
            here.allocate(nbytes)
            return 1

        def deallocate(self, ptr: int, nbytes: int, stream: Any = None) -> None:
            here.free(nbytes)

    runtime = SimpleNamespace(
        getDevice=lambda: 0,
        deviceGetDefaultMemPool=lambda device: POOL,
        memPoolGetAttribute=lambda pool, attr: here.attributes[attr] if pool == POOL else None,
        memPoolSetAttribute=lambda pool, attr, value: here.attributes.__setitem__(attr, value),
        **{f"cudaMemPoolAttr{name}": number for name, number in ATTRIBUTES.items()},
    )
    resources = [
        CudaMemoryResource, ManagedMemoryResource, CudaAsyncMemoryResource, PoolMemoryResource,
        StatisticsResourceAdaptor, LimitingResourceAdaptor, CudaAsyncViewMemoryResource,
    ]  # fmt: skip
    mr = SimpleNamespace(
        get_current_device_resource=lambda: here.resource,
        set_current_device_resource=lambda resource: setattr(here, "resource", resource),
        available_device_memory=lambda: (TOTAL - here.attributes[5], TOTAL),
        **{resource.__name__: resource for resource in resources},
    )
    cuda = SimpleNamespace(runtime=runtime, set_allocator=lambda allocator: None)
    xgboost = SimpleNamespace(
        build_info=lambda: {"USE_CUDA": True, "USE_RMM": here.has_rmm_in_xgboost},
        get_config=lambda: here.xgboost,
        set_config=lambda **named: here.xgboost.update(named),
    )
    modules: dict[str, dict[str, Any]] = {
        "rmm": {"mr": mr},
        "rmm.allocators": {},
        "rmm.allocators.cupy": {"rmm_cupy_allocator": object()},
        "cupy": {"cuda": cuda},
        "cupy.cuda": vars(cuda),
        "xgboost": vars(xgboost),
    }
    for name, names in modules.items():
        module = ModuleType(name)
        vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)
    return here


def test_rmm_allocates_from_the_default_pool_which_keeps_its_memory(machine: Machine) -> None:
    set_up(DeviceOptions())
    assert machine.chain() == ["StatisticsResourceAdaptor", "CudaAsyncViewMemoryResource"]
    assert machine.attributes[4] == 2**64 - 1


def test_a_limit_and_an_initial_size_apply_to_the_default_pool(machine: Machine) -> None:
    set_up(DeviceOptions(limit=8 * GIB, initial_pool=2 * GIB))
    assert machine.chain() == ["StatisticsResourceAdaptor", "LimitingResourceAdaptor", "CudaAsyncViewMemoryResource"]
    assert machine.resource.upstream_mr.arguments == (8 * GIB,)
    assert (machine.attributes[5], machine.attributes[7]) == (2 * GIB, 0)
    assert share_with_xgboost()  # the pool is found below the limit


def test_a_second_run_of_the_process_has_as_much_memory_as_the_first(machine: Machine) -> None:
    set_up(DeviceOptions())
    assert free_bytes(None) == TOTAL
    machine.allocate(40 * GIB)
    assert free_bytes(None) == 40 * GIB
    machine.free(40 * GIB)
    set_up(DeviceOptions())  # the second run: one more adaptor would count everything twice
    assert machine.chain() == ["StatisticsResourceAdaptor", "CudaAsyncViewMemoryResource"]
    assert free_bytes(None) == TOTAL
    assert free_bytes(8 * GIB) == 8 * GIB


def test_without_the_pool_free_memory_is_the_driver_s(machine: Machine) -> None:
    set_up(DeviceOptions(allocator="cuda"))
    machine.allocate(GIB)
    assert free_bytes(None) == TOTAL - GIB


def test_xgboost_uses_the_pool_that_rmm_uses(machine: Machine) -> None:
    set_up(DeviceOptions())
    assert share_with_xgboost()
    assert machine.xgboost == {"verbosity": 1, "use_rmm": False, "use_cuda_async_pool": True}


@pytest.mark.parametrize("allocator", ["cuda", "pool", "managed"])
def test_xgboost_keeps_its_allocator_if_the_pool_is_not_used(machine: Machine, allocator: Any) -> None:
    set_up(DeviceOptions(allocator=allocator))
    before = dict(machine.xgboost)
    assert not share_with_xgboost()
    assert machine.xgboost == before


def test_an_xgboost_without_the_setting_keeps_its_allocator(machine: Machine) -> None:
    set_up(DeviceOptions())
    del machine.xgboost["use_cuda_async_pool"]
    assert not share_with_xgboost()
    assert "use_cuda_async_pool" not in machine.xgboost


def test_an_xgboost_that_knows_rmm_shares_any_allocator(machine: Machine) -> None:
    machine.has_rmm_in_xgboost = True
    set_up(DeviceOptions(allocator="pool"))
    assert share_with_xgboost()
    assert machine.xgboost["use_rmm"] is True


def test_the_allocator_of_a_dask_cuda_worker_is_kept(machine: Machine) -> None:
    machine.resource = CudaAsyncMemoryResource()
    set_up(DeviceOptions())
    assert machine.chain() == ["StatisticsResourceAdaptor", "CudaAsyncMemoryResource"]
    assert machine.attributes[4] == 0
    assert not share_with_xgboost()
