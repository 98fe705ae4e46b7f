"""Set-up of device memory, on test doubles of RMM, CuPy's runtime and XGBoost over a pool that counts bytes.

Without RMM, CuPy allocates from that pool itself. The names of the real libraries are checked by
`tests/tools/gpu_api`, the real allocator by `tests/gpu/test_memory.py`.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpupipe.backends.base import DeviceOptions
from gpupipe.backends.gpu.memory import CupyMemory, RmmMemory, set_up
from gpupipe.errors import DeviceError
from gpupipe.units import GIB
from tests.backends.driver_pool import TOTAL, DriverPool


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


class Machine(DriverPool):
    """A device with its default pool, RMM's current resource and statistics, and the settings of XGBoost."""

    def __init__(self) -> None:
        super().__init__()
        self.resource: Resource = CudaMemoryResource()
        self.statistics: list[tuple[int, int]] = []  # of the open stages of RMM: bytes in use, and their peak
        self.xgboost: dict[str, Any] = {"verbosity": 1, "use_rmm": False, "use_cuda_async_pool": False}
        self.has_rmm_in_xgboost = False

    def take(self, size: int) -> None:
        super().take(size)
        self.statistics[-1:] = [(used + size, max(peak, used + size)) for used, peak in self.statistics[-1:]]

    def give_back(self, size: int) -> None:
        super().give_back(size)
        self.statistics[-1:] = [(used - size, peak) for used, peak in self.statistics[-1:]]

    def push_statistics(self) -> Any:
        before = [SimpleNamespace(current_bytes=used) for used, _ in self.statistics[-1:]]
        self.statistics.append((0, 0))
        return before[0] if before else None

    def pop_statistics(self) -> Any:
        inner_used, inner_peak = self.statistics.pop()
        outer = [(used + inner_used, max(peak, used + inner_peak)) for used, peak in self.statistics[-1:]]
        self.statistics[-1:] = outer
        return SimpleNamespace(peak_bytes=inner_peak)

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
    pytest.importorskip("cuda.bindings.runtime", reason="cuda-bindings comes with numba-cuda, on Linux")
    here = Machine()

    class CudaAsyncViewMemoryResource(Resource):
        def __init__(self, pool_handle: Any) -> None:
            super().__init__()
            self.handle = int(pool_handle)

        def pool_handle(self) -> int:
            return self.handle

        def allocate(self, nbytes: int, stream: Any = None) -> int:
            here.take(nbytes)
            return 1

        def deallocate(self, ptr: int, nbytes: int, stream: Any = None) -> None:
            here.give_back(nbytes)

    resources = [
        CudaMemoryResource, ManagedMemoryResource, CudaAsyncMemoryResource, PoolMemoryResource,
        StatisticsResourceAdaptor, LimitingResourceAdaptor, CudaAsyncViewMemoryResource,
    ]  # fmt: skip
    mr = SimpleNamespace(
        get_current_device_resource=lambda: here.resource,
        set_current_device_resource=lambda resource: setattr(here, "resource", resource),
        **{resource.__name__: resource for resource in resources},
    )
    statistics = {"push_statistics": here.push_statistics, "pop_statistics": here.pop_statistics}
    install(
        monkeypatch, here, {
            "rmm": {"mr": mr},
            "rmm.allocators": {},
            "rmm.allocators.cupy": {"rmm_cupy_allocator": object()},
            "rmm.statistics": statistics,
        },
    )  # fmt: skip
    return here


@pytest.fixture
def without_rapids(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a device whose process has CuPy, but no package of RAPIDS."""
    here = Machine()
    install(monkeypatch, here, dict.fromkeys(("rmm", "cudf", "cuml")))
    monkeypatch.setattr("os.environ", {})
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return here


def install(monkeypatch: pytest.MonkeyPatch, here: Machine, more: dict[str, Any]) -> None:
    """Replace CuPy, XGBoost and `more` modules: name to their names, None if an import fails."""
    xgboost = {
        "build_info": lambda: {"USE_CUDA": True, "USE_RMM": here.has_rmm_in_xgboost},
        "get_config": lambda: here.xgboost,
        "set_config": lambda **named: here.xgboost.update(named),
    }
    cupy = here.cupy()
    modules = {"cupy": vars(cupy), "cupy.cuda": vars(cupy.cuda), "xgboost": xgboost, **more}
    for name, names in modules.items():
        module: Any = None
        if names is not None:
            module = ModuleType(name)
            module.__spec__ = ModuleSpec(name, None)
            vars(module).update(names)
        monkeypatch.setitem(sys.modules, name, module)


def test_rmm_allocates_from_the_default_pool_which_keeps_its_memory(machine: Machine) -> None:
    assert isinstance(set_up(DeviceOptions()), RmmMemory)
    assert machine.chain() == ["StatisticsResourceAdaptor", "CudaAsyncViewMemoryResource"]
    assert machine.threshold == 2**64 - 1


def test_a_limit_and_an_initial_size_apply_to_the_default_pool(machine: Machine) -> None:
    memory = set_up(DeviceOptions(limit=8 * GIB, initial_pool=2 * GIB))
    assert machine.chain() == ["StatisticsResourceAdaptor", "LimitingResourceAdaptor", "CudaAsyncViewMemoryResource"]
    assert machine.resource.upstream_mr.arguments == (8 * GIB,)
    assert (machine.reserved, machine.used) == (2 * GIB, 0)
    assert memory.share_with_xgboost()  # the pool is found below the limit


def test_a_second_run_of_the_process_has_as_much_memory_as_the_first(machine: Machine) -> None:
    memory = set_up(DeviceOptions())
    assert memory.free_bytes() == TOTAL
    held = machine.allocate(40 * GIB)
    assert memory.free_bytes() == 40 * GIB
    del held
    memory = set_up(DeviceOptions())  # the second run: one more adaptor would count everything twice
    assert machine.chain() == ["StatisticsResourceAdaptor", "CudaAsyncViewMemoryResource"]
    assert memory.free_bytes() == TOTAL
    assert set_up(DeviceOptions(limit=8 * GIB)).free_bytes() == 8 * GIB


def test_without_the_pool_free_memory_is_the_driver_s(machine: Machine) -> None:
    memory = set_up(DeviceOptions(allocator="cuda"))
    held = machine.allocate(GIB)
    assert memory.free_bytes() == TOTAL - GIB
    del held


def test_xgboost_uses_the_pool_that_rmm_uses(machine: Machine) -> None:
    assert set_up(DeviceOptions()).share_with_xgboost()
    assert machine.xgboost == {"verbosity": 1, "use_rmm": False, "use_cuda_async_pool": True}


@pytest.mark.parametrize("allocator", ["cuda", "pool", "managed"])
def test_xgboost_keeps_its_allocator_if_the_pool_is_not_used(machine: Machine, allocator: Any) -> None:
    memory = set_up(DeviceOptions(allocator=allocator))
    before = dict(machine.xgboost)
    assert not memory.share_with_xgboost()
    assert machine.xgboost == before


def test_an_xgboost_without_the_setting_keeps_its_allocator(machine: Machine) -> None:
    memory = set_up(DeviceOptions())
    del machine.xgboost["use_cuda_async_pool"]
    assert not memory.share_with_xgboost()
    assert "use_cuda_async_pool" not in machine.xgboost


def test_an_xgboost_that_knows_rmm_shares_any_allocator(machine: Machine) -> None:
    machine.has_rmm_in_xgboost = True
    assert set_up(DeviceOptions(allocator="pool")).share_with_xgboost()
    assert machine.xgboost["use_rmm"] is True


def test_the_allocator_of_a_dask_cuda_worker_is_kept(machine: Machine) -> None:
    machine.resource = CudaAsyncMemoryResource()
    memory = set_up(DeviceOptions())
    assert machine.chain() == ["StatisticsResourceAdaptor", "CudaAsyncMemoryResource"]
    assert machine.threshold == 0
    assert not memory.share_with_xgboost()


def test_without_rmm_cupy_allocates_from_the_default_pool_which_keeps_its_memory(without_rapids: Machine) -> None:
    memory = set_up(DeviceOptions(initial_pool=2 * GIB))
    assert isinstance(memory, CupyMemory)
    assert without_rapids.threshold == 2**64 - 1
    assert (without_rapids.reserved, without_rapids.used) == (2 * GIB, 0)
    held = without_rapids.allocator(GIB)
    assert without_rapids.used == GIB
    assert memory.free_bytes() == TOTAL - GIB
    del held
    assert memory.free_bytes() == TOTAL
    assert memory.share_with_xgboost()
    assert without_rapids.xgboost["use_cuda_async_pool"] is True


def test_without_rmm_a_limit_counts_what_others_hold_in_the_pool(without_rapids: Machine) -> None:
    set_up(DeviceOptions(limit=8 * GIB))
    of_xgboost = without_rapids.allocate(6 * GIB)
    held = without_rapids.allocator(2 * GIB)
    with pytest.raises(MemoryError, match="1 bytes for an array, with 8,589,934,592 of 8,589,934,592 bytes"):
        without_rapids.allocator(1)
    del of_xgboost
    assert without_rapids.allocator(6 * GIB)
    del held


@pytest.mark.parametrize("library", ["machine", "without_rapids"])
def test_a_peak_includes_memory_allocated_before_the_stage_and_its_parent(
    library: str, request: pytest.FixtureRequest
) -> None:
    here: Machine = request.getfixturevalue(library)
    memory = set_up(DeviceOptions())
    memory.open_stage()
    outer = here.allocate(100)
    memory.open_stage()
    temporary = here.allocate(40)
    del temporary
    kept = here.allocate(5)
    assert memory.close_stage() == 140
    memory.open_stage()
    del outer
    assert memory.close_stage() == 105  # what it began with
    temporary = here.allocate(50)
    del temporary
    assert memory.close_stage() == 140  # that of the inner stage
    del kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allocator": "pool"}, "gpu.allocator: pool needs rmm, which is not installed"),
        ({"allocator": "managed"}, "gpu.allocator: managed needs rmm"),
        ({"allocator": "cuda"}, "gpu.allocator: cuda needs rmm"),
        ({"spill": True}, "gpu.spill: true needs cudf, which is not installed"),
    ],
)
def test_settings_that_need_rapids_are_refused_by_name(without_rapids: Machine, options: Any, message: str) -> None:
    with pytest.raises(DeviceError, match=message) as caught:
        set_up(DeviceOptions(**options))
    assert caught.value.exit_code == 4
    assert "remove the setting, or pip install 'gpupipe[cuda13]'" in caught.value.fix
    assert without_rapids.allocator is None


def test_a_gpu_without_pools_is_refused(without_rapids: Machine) -> None:
    without_rapids.is_supported = 0
    with pytest.raises(DeviceError, match="the driver has no memory pools for this GPU"):
        set_up(DeviceOptions())


def test_a_pytorch_that_is_imported_later_uses_the_pool_unless_it_has_settings(
    without_rapids: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings(**given: str) -> dict[str, str]:
        environment = dict(given)
        monkeypatch.setattr("os.environ", environment)
        set_up(DeviceOptions())
        return environment

    assert settings() == {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        assert settings(**{name: "max_split_size_mb:128"}) == {name: "max_split_size_mb:128"}
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    assert settings() == {}
