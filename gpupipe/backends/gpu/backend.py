"""The backend of one NVIDIA GPU: CuPy and Numba, with cuDF and cuML where they are installed, and one allocator.

Everything is launched on the default stream, in order; only reads of results wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from gpupipe.backends import machine
from gpupipe.backends.base import (
    DEFAULT_OPTIONS,
    HOST_STEP,
    Backend,
    DeviceBackend,
    DeviceOptions,
    Item,
    Result,
)
from gpupipe.backends.probe import lacks_package
from gpupipe.backends.stage import StageUse
from gpupipe.errors import DeviceError
from gpupipe.typing import Array, ArrayNamespace, HostArray
from gpupipe_kernels.toolchain import find_library

if TYPE_CHECKING:
    from gpupipe_kernels.engines import HostEngine, KernelFamily
    from gpupipe_kernels.program.program import Program


class GpuBackend(DeviceBackend):
    """GPU backend. Creating it sets up device memory for the whole process."""

    name: Literal["cpu", "gpu"] = "gpu"

    def __init__(self, reason: str, options: DeviceOptions = DEFAULT_OPTIONS) -> None:
        from gpupipe.backends.gpu.device_code import require_kernels
        from gpupipe.backends.gpu.memory import set_up
        from gpupipe_kernels.numpy_compat import restore_row_stack

        restore_row_stack()  # before RAPIDS is imported
        require_kernels()
        self.reason, self.options = reason, options
        self.n_threads = machine.n_threads()
        self._meter = _Meter()
        self.device_memory = set_up(options)

    @property
    def xp(self) -> ArrayNamespace:
        import cupy

        namespace: ArrayNamespace = cupy
        return namespace

    @cached_property
    def host(self) -> Backend:
        """The host backend, for work that always runs on the host."""
        from gpupipe.backends.cpu.backend import CpuBackend

        return CpuBackend(HOST_STEP, self.options)

    @property
    def frame(self) -> Any:
        import cudf

        return cudf

    def lacks(self, library: str) -> bool:
        return not find_library(library) if library == "cublas" else lacks_package(library)

    def estimator(self, name: str, params: Mapping[str, Any]) -> Any:
        from gpupipe.backends.gpu.estimators import ESTIMATORS, create

        found = create(name, params, self.lacks)
        if ESTIMATORS[name].library == "xgboost":
            self.device_memory.share_with_xgboost()
        return found

    def estimator_module(self, name: str) -> str | None:
        from gpupipe.backends.gpu.estimators import ESTIMATORS

        return ESTIMATORS[name].path.partition(":")[0] if name in ESTIMATORS else None

    def empty_matrix(self, n_rows: int, n_columns: int) -> Array:
        """Return an uninitialised float32 matrix in device memory, column-major."""
        return self.xp.empty((n_rows, n_columns), dtype="float32", order="F")

    def take(self, values: Array, rows: Array, out: Array) -> None:
        self.xp.take(values, rows, out=out)

    def choose_engine(self, family: KernelFamily, size: int) -> HostEngine:
        return self.host.choose_engine(family, size)

    def run_program(self, program: Program, blocks: Mapping[str, Array], out: Array, fold: Array | None = None) -> None:
        from gpupipe.backends.gpu.device_code import require_call_compiler
        from gpupipe_kernels.interpreters.cuda import interpreter as cuda_interpreter

        require_call_compiler(program)
        ready = cuda_interpreter.device_program(program)
        there = ready.n_bytes
        on_device: Any = (blocks, out, fold)  # DeviceArrays
        cuda_interpreter.run(ready, *on_device)
        self.last_interpreter = "cuda"
        self._meter.add(to_device=ready.n_bytes - there)

    def reductions(self, n_values: int, engine: str | None = None) -> Any:
        from gpupipe_kernels.reduce.cuda import engine as cuda_engine

        return cuda_engine

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results, computed in sequence: the device itself is parallel."""
        return [function(item) for item in items]

    def to_host(self, array: Array) -> HostArray:
        """Return `array` as a NumPy array; bytes from the device are counted."""
        xp: Any = self.xp  # CuPy, which has arguments that NumPy lacks
        if isinstance(array, xp.ndarray):
            self._meter.add(to_host=array.nbytes)
        on_host: HostArray = xp.asnumpy(array, order="A")  # another order would need a copy on the device
        return on_host

    def to_device(self, array: Array) -> Array:
        """Return a NumPy array in device memory; bytes to the device are counted."""
        if not isinstance(array, self.xp.ndarray):
            self._meter.add(to_device=array.nbytes)
        return self.xp.asarray(array)

    def read_columns(
        self, file_format: str, paths: Sequence[str], columns: Sequence[str], groups: Sequence[int] | None = None
    ) -> Any:
        if file_format == "orc":
            return self.frame.read_orc(list(paths), columns=list(columns))[list(columns)]
        chosen = None if groups is None else [list(groups)]  # of each file a list
        # Without partitioning, cuDF opens the paths directly, without a dataset that searches for folders.
        return self.frame.read_parquet(
            list(paths),
            columns=list(columns),
            row_groups=chosen,
            use_pandas_metadata=False,
            dataset_kwargs={"partitioning": None},
        )[list(columns)]

    def values(self, series: Any, dtype: str) -> Array:
        values: Array = series.astype(dtype).to_cupy()
        return values

    def ticks(self, series: Any) -> tuple[Array, str]:
        unit = str(series.dtype).partition("[")[2][:2].rstrip("],")  # of "datetime64[ns, UTC]", "timestamp[s][pyarrow]"
        return series.astype("int64").fillna(-(2**63)).to_cupy(), unit

    def to_arrow(self, series: Any) -> Any:
        """Return a series as a ``pyarrow.Array``; bytes from the device are counted."""
        array = series.to_arrow()
        self._meter.add(to_host=array.nbytes)
        return array

    def fall_back(self, what: str, where: str, fix: str) -> None:
        if self.options.fallback == "forbid":
            raise DeviceError(
                f"{what}, and fallback to the CPU is forbidden",
                where=where,
                fix=f"{fix}, or set fallback: allow",
            )
        self._meter.note(f"{what} ({where})")

    def open_stage(self) -> None:
        self.device_memory.open_stage()
        self._meter.open()

    def close_stage(self) -> StageUse:
        return self._meter.close(self.device_memory.close_stage())

    def synchronize(self) -> None:
        xp: Any = self.xp  # CuPy, which has streams
        xp.cuda.get_current_stream().synchronize()

    def free_bytes(self) -> int:
        """Return the bytes of the device that can still be allocated; see `DeviceMemory.free_bytes`."""
        return self.device_memory.free_bytes()


class _Meter:
    """Counters of the open stages; an inner stage counts for the outer ones too."""

    def __init__(self) -> None:
        self._open: list[_Count] = []

    def open(self) -> None:
        self._open.append(_Count())

    def close(self, peak_bytes: int | None) -> StageUse:
        """Return the counters of the innermost stage, with its peak of device memory."""
        count = self._open.pop()
        return StageUse(count.to_device, count.to_host, peak_bytes, tuple(count.fallbacks))

    def add(self, to_device: int = 0, to_host: int = 0) -> None:
        for count in self._open:
            count.to_device += to_device
            count.to_host += to_host

    def note(self, text: str) -> None:
        for count in self._open[-1:]:  # reported once, by its own stage
            count.fallbacks[text] = None


class _Count:
    def __init__(self) -> None:
        self.to_device = self.to_host = 0
        self.fallbacks: dict[str, None] = {}
