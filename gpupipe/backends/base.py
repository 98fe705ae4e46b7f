"""The backend interface: three namespaces, a matrix, an interpreter, and memory figures.

Stages are written against this interface. The backend is chosen once, at the start of a run, and passed as an argument;
nothing is global. `gpupipe.backends.cpu.backend` is the implementation for the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from gpupipe.backends import machine
from gpupipe.backends.machine import MemoryFigures
from gpupipe.backends.stage import Place, StageUse
from gpupipe.typing import Array, ArrayNamespace, HostArray

if TYPE_CHECKING:
    from gpupipe_kernels.engines import EngineSetting, HostEngine, KernelFamily
    from gpupipe_kernels.program.program import Program

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class DeviceOptions:
    """Settings of the device, and the limits of the host."""

    # Whether a step that the device cannot do may run on the host instead.
    fallback: Literal["forbid", "allow"] = "allow"
    # The allocator that CuPy, cuDF and cuML share. async: the driver's default pool, which XGBoost shares too. The
    # others need RMM. pool: a growing RMM pool. managed: the same with managed memory, which the driver can move to the
    # host. cuda: no pool, each allocation calls the driver.
    allocator: Literal["async", "pool", "managed", "cuda"] = "async"
    initial_pool: int | None = None  # initial size of the pool in bytes; None: the default of the allocator
    limit: int | None = None  # maximum of allocated bytes; None: the memory of the device
    spill: bool = False  # whether cuDF, which this needs, may spill unused data to the host
    # Host memory limit of this process in bytes; None: the limit of the machine or container.
    host_limit: int | None = None
    # Implementation of reductions, history and text features on the host; see `gpupipe_kernels.engines`.
    engine: EngineSetting = "auto"


DEFAULT_OPTIONS = DeviceOptions()
HOST_STEP = "always on the host: masks, files, plots"  # the reason shown in a run on a device


class Backend(ABC):
    """The host or a device, with its libraries."""

    name: Literal["cpu", "gpu"]
    reason: str  # the reason for the choice
    options: DeviceOptions
    n_threads: int  # threads available to the process, by affinity and cgroup quota
    # The interpreter of the last `run_program`, for the timeline: ``"numpy"`` or ``"cuda"``; ``""`` before the first.
    last_interpreter: str = ""

    @property
    def place(self) -> Place:
        """Place of a stage that runs on this backend."""
        return Place(self.name, self.reason, self)

    @property
    def host_place(self) -> Place:
        """Place of a stage that runs on the host; transfers from and to the device are counted."""
        return Place(self.host.name, self.host.reason, self)

    @property
    @abstractmethod
    def xp(self) -> ArrayNamespace:
        """The array namespace: ``numpy`` or ``cupy``."""

    @property
    @abstractmethod
    def host(self) -> Backend:
        """The host backend, for work that always runs there; on the host, this backend itself."""

    @abstractmethod
    def estimator(self, name: str, params: Mapping[str, Any]) -> Any:
        """Return an unfitted estimator.

        `name` is the class name of scikit-learn or XGBoost, such as ``"LogisticRegression"``; `params` are keyword
        arguments under scikit-learn's names. Raise ConfigError if the library of the class is not installed; the
        message has the install command.
        """

    def estimator_module(self, name: str) -> str | None:
        """Return the module that `estimator` imports the class from; None for an unknown class."""
        return None

    def lacks(self, library: str) -> bool:
        """Return whether a library that some work on a device needs, such as ``"cudf"``, is not installed."""
        return False

    @abstractmethod
    def empty_matrix(self, n_rows: int, n_columns: int) -> Array:
        """Return an uninitialised float32 matrix of shape (n_rows, n_columns), column-major."""

    @abstractmethod
    def take(self, values: Array, rows: Array, out: Array) -> None:
        """Write ``values[rows]`` to `out`.

        `rows` are int8, int16 or int32 in 0..n-1, which is not checked; `out` has the dtype of `values`.
        """

    def take_rows(self, X: Array, rows: Array) -> Array:
        """Return rows of a float32 matrix on the device, column-major; `rows` are row numbers on the host."""
        chosen, found = self.to_device(rows.astype("int32")), self.empty_matrix(len(rows), X.shape[1])
        for j in range(X.shape[1]):
            self.take(X[:, j], chosen, found[:, j])
        return found

    @abstractmethod
    def choose_engine(self, family: KernelFamily, size: int) -> HostEngine:
        """Return the engine for some work of a family of kernels on the host, and record it for the open stages.

        `size` is in units of work: see `gpupipe_kernels.engines.choose_engine`.
        """

    @abstractmethod
    def run_program(self, program: Program, blocks: Mapping[str, Array], out: Array, fold: Array | None = None) -> None:
        """Run `program` over the blocks of a table and write every column of `out`.

        - `blocks`: dtype name to array of shape (columns, rows), as in `gpupipe.table.blocks.Table`
        - `out`: array of float32, shape (rows, program.n_columns), column-major
        - `fold` (array of int8, shape (rows,)): the fold of each row; None: statistics of all rows
        """

    @abstractmethod
    def reductions(self, n_values: int, engine: str | None = None) -> Any:
        """Return the reduction engine, a module of `gpupipe_kernels.reduce`, for a number of values.

        `engine` is "numpy" or "numba", an engine of the host; a device has only one.
        """

    @abstractmethod
    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return ``[function(item) for item in items]``, in parallel if that is faster."""

    @abstractmethod
    def to_host(self, array: Array) -> HostArray:
        """Return `array` as a NumPy array; no copy if it is one. Bytes from a device are counted."""

    @abstractmethod
    def to_device(self, array: Array) -> Array:
        """Return a NumPy array as one of `xp`; no copy on the host. Bytes to a device are counted."""

    @abstractmethod
    def fall_back(self, what: str, where: str, fix: str) -> None:
        """Record a fallback from the device to the host; do nothing on the host itself.

        `what` is what the device cannot do, with the reason; `where` is the stage and the setting; `fix` is the change
        that would avoid the fallback. Raise DeviceError if the configuration forbids fallbacks.
        """

    def note(self, text: str) -> None:
        """Add a warning to the open stage."""
        self._notes.append(text)

    def take_notes(self) -> list[str]:
        """Return the warnings since the last call, once including that compiled code cannot be cached."""
        from gpupipe_kernels.code_cache import PRIVATE_FOLDER, cache_folder, take_exposure

        if exposure := take_exposure():
            self.note(f"compiled code is not cached in {cache_folder()}: {exposure}; {PRIVATE_FOLDER}")
        found, self._notes = self._notes, []
        return found

    @cached_property
    def _notes(self) -> list[str]:
        return []

    @abstractmethod
    def open_stage(self) -> None:
        """Start counting the device use of a stage; stages may be nested."""

    @abstractmethod
    def close_stage(self) -> StageUse:
        """Return the device use of the innermost stage."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has finished its work: only then does a stage end."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the free bytes of the device, or of the host."""

    def memory(self) -> MemoryFigures:
        """Return host memory figures in bytes, within the limits of the container and the configuration."""
        return machine.memory(limit=self.options.host_limit)


class DeviceBackend(Backend):
    """A backend with its own dataframe library, which reads Parquet and ORC into device memory if it is installed.

    Used by `gpupipe.io.device` and `gpupipe.table.device`. Host tables are read and encoded with Arrow.
    """

    @property
    @abstractmethod
    def frame(self) -> Any:
        """The dataframe namespace, such as ``cudf``."""

    @abstractmethod
    def read_columns(
        self, file_format: str, paths: Sequence[str], columns: Sequence[str], groups: Sequence[int] | None = None
    ) -> Any:
        """Return columns of Parquet or ORC files as a DataFrame of `frame`; dates become timestamps in seconds.

        `file_format` is "parquet" or "orc". The files have equal schemas, and rows are in the order of `paths`.
        `groups` are the row groups to read, of a single Parquet file.
        """

    @abstractmethod
    def values(self, series: Any, dtype: str) -> Array:
        """Return a series of numbers or booleans as an array of `dtype`, shape (rows,).

        Null becomes NaN in float arrays; for other dtypes the series must have no nulls.
        """

    @abstractmethod
    def ticks(self, series: Any) -> tuple[Array, str]:
        """Return a series of times as int64 since 1970-01-01 UTC, with nulls as the smallest int64, and their unit."""

    @abstractmethod
    def to_arrow(self, series: Any) -> Any:
        """Return a series as a ``pyarrow.Array``; bytes from a device are counted."""
