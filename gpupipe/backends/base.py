"""The backend interface: three namespaces, a matrix, an interpreter, and memory figures.

A stage is written once against this contract. The backend is chosen once, at the start of a run, and handed down as an
argument; nothing is global. `gpupipe.backends.cpu.backend` is the one for the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
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
    """How a device is to be used, and how much of the host.

    Attributes
    ----------
    fallback : {"forbid", "allow"}
        Whether a step that the device cannot do may run on the host instead.
    allocator : {"async", "pool", "managed", "cuda"}
        Which allocator CuPy, cuDF and cuML share. async: the driver's default pool, which XGBoost shares too. pool: a
        growing pool of RMM. managed: such a pool of memory that the driver moves to the host and back. cuda: none,
        each allocation goes to the driver.
    initial_pool : int, optional
        Bytes that a pool begins with; None leaves it to the allocator.
    limit : int, optional
        The most bytes that may be allocated at once; None: all that the device has.
    spill : bool
        Whether cuDF may move what it does not use to the host.
    host_limit : int, optional
        The bytes of the host that this process is to make do with; None: all that the machine gives it.
    engine : {"auto", "numpy", "numba"}
        What reduces columns and computes over histories and texts on the host; see `gpupipe_kernels.engines`.
    """

    fallback: Literal["forbid", "allow"] = "allow"
    allocator: Literal["async", "pool", "managed", "cuda"] = "async"
    initial_pool: int | None = None
    limit: int | None = None
    spill: bool = False
    host_limit: int | None = None
    engine: EngineSetting = "auto"


DEFAULT_OPTIONS = DeviceOptions()
HOST_STEP = "a step of the host: masks, files, drawings"  # why it is there in a run on a device


class Backend(ABC):
    """The host or a device, with the libraries that work there.

    Attributes
    ----------
    name : {"cpu", "gpu"}
    reason : str
        Why this one was chosen, in words.
    options : DeviceOptions
    n_threads : int
        How many threads the machine really gives (cgroup quota and affinity counted).
    last_interpreter : str
        The interpreter of the last `run_program`, for the timeline: ``"numpy"``, ``"numba"`` or ``"cuda"``; ``""``
        before the first.
    """

    name: Literal["cpu", "gpu"]
    reason: str
    options: DeviceOptions
    n_threads: int
    last_interpreter: str = ""

    @property
    def place(self) -> Place:
        """The place of a stage that runs here."""
        return Place(self.name, self.reason, self)

    @property
    def host_place(self) -> Place:
        """The place of a stage that runs on the host; what it moves from and to the device is counted."""
        return Place(self.host.name, self.host.reason, self)

    @property
    @abstractmethod
    def xp(self) -> ArrayNamespace:
        """The array namespace: ``numpy`` or ``cupy``."""

    @property
    @abstractmethod
    def host(self) -> Backend:
        """The backend of the host, for what a device leaves to it; itself where it is that."""

    @abstractmethod
    def estimator(self, name: str, params: Mapping[str, Any]) -> Any:
        """Return an unfitted estimator.

        Parameters
        ----------
        name : str
            The scikit-learn (or XGBoost) class name, such as ``"LogisticRegression"``.
        params : mapping
            Keyword arguments under scikit-learn's names.

        Raises
        ------
        ConfigError
            If the library that holds the class is not installed; the message has the install command.
        """

    def estimator_module(self, name: str) -> str | None:
        """Return the module that `estimator` imports the class from; None for an unknown class."""
        return None

    @abstractmethod
    def empty_matrix(self, n_rows: int, n_columns: int) -> Array:
        """Return an uninitialised float32 matrix of shape (n_rows, n_columns), column-major."""

    @abstractmethod
    def take(self, values: Array, rows: Array, out: Array) -> None:
        """Write ``values[rows]`` to `out`.

        Parameters
        ----------
        values : array, shape (n,)
        rows : array of int8, int16 or int32, shape (m,)
            Each of them in 0..n-1; not checked.
        out : array of the dtype of `values`, shape (m,)
        """

    @abstractmethod
    def choose_engine(self, family: KernelFamily, size: int) -> HostEngine:
        """Return what computes some work of a family of kernels on the host; noted for the stages that are open.

        Parameters
        ----------
        family : {"reductions", "keyed", "text"}
        size : int
            Units of work: see `gpupipe_kernels.engines.choose_engine`.
        """

    @abstractmethod
    def interpreter(self, program: Program) -> str:
        """Return the name of the interpreter that runs `program`, over any number of rows."""

    @abstractmethod
    def run_program(
        self,
        program: Program,
        blocks: Mapping[str, Array],
        out: Array,
        fold: Array | None = None,
        engine: str | None = None,
    ) -> None:
        """Run `program` over the blocks of a table and write every column of `out`.

        Parameters
        ----------
        program : Program
            The instruction table and its lookup tables.
        blocks : mapping of str to array
            dtype name to array of shape (columns, rows), as in `gpupipe.table.blocks.Table`.
        out : array of float32, shape (rows, program.n_columns), column-major
        fold : array of int8, shape (rows,), optional
            The out-of-fold part that each row belongs to; None means the full statistics for every row.
        engine : {"numpy", "numba"}, optional
            One of the host's by its name; users' kernels are called by NumPy's in any case. A device has only one.
        """

    @abstractmethod
    def reductions(self, n_values: int, engine: str | None = None) -> Any:
        """Return what reduces so many values, rows by columns: a module of `gpupipe_kernels.reduce`.

        Parameters
        ----------
        n_values : int
        engine : {"numpy", "numba"}, optional
            One of the host's by its name; a device has only one.
        """

    @abstractmethod
    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return ``[function(item) for item in items]``, independent calls side by side where that pays."""

    @abstractmethod
    def to_host(self, array: Array) -> HostArray:
        """Return `array` as a NumPy array; no copy if it is one. What leaves a device is counted."""

    @abstractmethod
    def to_device(self, array: Array) -> Array:
        """Return a NumPy array as one of `xp`; no copy on the host. What goes to a device is counted."""

    @abstractmethod
    def fall_back(self, what: str, where: str, fix: str) -> None:
        """Say that something runs on the host though the device was chosen; nothing to say on the host itself.

        Parameters
        ----------
        what : str
            What the device cannot do, and why.
        where : str
            The stage and the setting that ask for it.
        fix : str
            What to change so that the device can.

        Raises
        ------
        DeviceError
            If the configuration forbids it.
        """

    def remark(self, text: str) -> None:
        """Have the stage that is open say something when it ends."""
        self._remarks.append(text)

    def take_remarks(self) -> list[str]:
        """Return the remarks since the last call, and once that compiled code cannot be kept."""
        from gpupipe_kernels.code_cache import PRIVATE_FOLDER, cache_folder, take_exposure

        if exposure := take_exposure():
            self.remark(f"compiled code is not kept in {cache_folder()}: {exposure}; {PRIVATE_FOLDER}")
        found, self._remarks = self._remarks, []
        return found

    @cached_property
    def _remarks(self) -> list[str]:
        return []

    @abstractmethod
    def open_stage(self) -> None:
        """Begin to count what a stage does with the device; stages may be nested."""

    @abstractmethod
    def close_stage(self) -> StageUse:
        """Return what the stage that was opened last has done with the device."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for what the device was told to do: only then is a stage over."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the bytes that are free where it computes: of the device, or of the host."""

    def memory(self) -> MemoryFigures:
        """Return host memory figures in bytes, limits of a container and of the configuration counted."""
        return machine.memory(limit=self.options.host_limit)


class DeviceBackend(Backend):
    """A backend with a dataframe library of its own, which reads files into its memory.

    `gpupipe.io.device` and `gpupipe.table.device` need one. Host tables are read and encoded by Arrow.
    """

    @property
    @abstractmethod
    def frame(self) -> Any:
        """The dataframe namespace, such as ``cudf``."""

    @abstractmethod
    def read_columns(
        self, file_format: str, paths: Sequence[str], columns: Sequence[str], groups: Sequence[int] | None = None
    ) -> Any:
        """Return columns of Parquet or ORC files as a DataFrame of `frame`; dates are time stamps of seconds.

        Parameters
        ----------
        file_format : {"parquet", "orc"}
        paths : sequence of str
            Files whose schemas are equal; their rows come in this order.
        columns : sequence of str
        groups : sequence of int, optional
            Of a single Parquet file: read only these row groups.
        """

    @abstractmethod
    def read_texts(
        self, content: BytesIO, names: Sequence[str], columns: Sequence[str], delimiter: str, quote: str | None
    ) -> Any:
        """Return columns of the bytes of a CSV file without header as a DataFrame of strings.

        Nothing is inferred and nothing is missing: every field is the text that it is. Blank lines are skipped.

        Parameters
        ----------
        content : BytesIO
            Whole rows, at least one.
        names : sequence of str
            Of all fields of a row.
        columns : sequence of str
            Those of `names` to return.
        delimiter : str
        quote : str, optional
            None: quotation marks are a part of the text.
        """

    @abstractmethod
    def read_json_texts(self, content: BytesIO, columns: Sequence[str]) -> Any:
        """Return `columns` of JSON lines as a DataFrame of strings, each value as it is written; null where it is null.

        Texts keep their quotation marks, and what they escape is written out. The lines are flat objects; one that has
        no such name has a null there.
        """

    @abstractmethod
    def values(self, series: Any, dtype: str) -> Array:
        """Return a series of numbers or booleans as an array of `dtype`, shape (rows,).

        Null is NaN in one of floats; for another the series must have none.
        """

    @abstractmethod
    def ticks(self, series: Any) -> tuple[Array, str]:
        """Return a series of times as int64 since 1970-01-01 UTC, the least int64 where null, and their unit."""

    @abstractmethod
    def to_arrow(self, series: Any) -> Any:
        """Return a series as a ``pyarrow.Array``; what leaves a device is counted."""
