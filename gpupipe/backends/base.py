"""What a backend is: three namespaces, a matrix, an interpreter, and memory figures.

A stage is written once against this contract. The backend is chosen once, at the start of a run, and handed down as an
argument; nothing is global. `gpupipe.backends.cpu` is the one for the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from gpupipe_kernels.program import Program

Item = TypeVar("Item")
Result = TypeVar("Result")
Array = Any  # numpy.ndarray or cupy.ndarray


@dataclass(frozen=True)
class Memory:
    """Memory figures in bytes.

    Attributes
    ----------
    total : int
        What this process may use: the machine's memory or the cgroup's limit, whichever is less.
    available : int
        What is free of it now.
    peak : int
        The most that this process has held.
    """

    total: int
    available: int
    peak: int


class Backend(ABC):
    """The host or a device, with the libraries that work there.

    Attributes
    ----------
    name : {"cpu", "gpu"}
    reason : str
        Why this one was chosen, in words.
    n_threads : int
        How many threads the machine really gives (cgroup quota and affinity counted).
    last_interpreter : str
        The interpreter of the last `run_program`, for the timeline: ``"numpy"``, ``"numba"`` or ``"cuda"``; ``""``
        before the first.
    """

    name: Literal["cpu", "gpu"]
    reason: str
    n_threads: int
    last_interpreter: str = ""

    @property
    @abstractmethod
    def xp(self) -> Any:
        """The array namespace: ``numpy`` or ``cupy``."""

    @property
    @abstractmethod
    def frame(self) -> Any:
        """The dataframe namespace: ``pandas`` or ``cudf``."""

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

    @abstractmethod
    def empty_matrix(self, n_rows: int, n_columns: int) -> Array:
        """Return an uninitialised float32 matrix of shape (n_rows, n_columns), column-major."""

    @abstractmethod
    def take(self, values: Array, rows: Array, out: Array) -> None:
        """Write ``values[rows]`` to `out`.

        Parameters
        ----------
        values : array, shape (n,)
        rows : array of int32, shape (m,)
            Each of them in 0..n-1; not checked.
        out : array of the dtype of `values`, shape (m,)
        """

    @abstractmethod
    def interpreter(self, program: Program, n_rows: int) -> str:
        """Return the name of the interpreter that `run_program` would take now for so many rows."""

    @abstractmethod
    def run_program(self, program: Program, blocks: Mapping[str, Array], out: Array, fold: Array | None = None) -> None:
        """Run `program` over the blocks of a table and write every column of `out`.

        Parameters
        ----------
        program : Program
            The instruction table and its lookup tables.
        blocks : mapping of str to array
            dtype name to array of shape (columns, rows), as in `gpupipe.table.Table`.
        out : array of float32, shape (rows, program.n_columns), column-major
        fold : array of int8, shape (rows,), optional
            The out-of-fold part that each row belongs to; None means the full statistics for every row.
        """

    @abstractmethod
    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return ``[function(item) for item in items]``, independent calls side by side where that pays."""

    @abstractmethod
    def to_host(self, array: Array) -> Any:
        """Return `array` as a NumPy array; no copy if it is one."""

    @abstractmethod
    def memory(self) -> Memory:
        """Return host memory figures (a device adds its own)."""
