"""Out of memory is not the end: work that takes each row by itself goes on with fewer rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from gpupipe.errors import LimitError
from gpupipe.units import GIB

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

Result = TypeVar("Result")

LEAST_ROWS = 1024  # what fails with so few is not short of memory for its rows
FIX = (
    "use fewer columns (drop), ids instead of one-hot columns (models of trees, target_encode), fewer rows (where), or "
    "more memory; `gpupipe plan` says what a run needs"
)

# NumPy, Arrow, cuDF, CuPy and RMM raise MemoryErrors. XGBoost, Numba, PyTorch, CUDA's runtime and libraries below cuML
# and CuPy, and Python, which finds no room for the stack of a thread, raise errors of their own, with these words.
WORDS = (
    "bad_alloc",
    "out_of_memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
    "CUDA out of memory",
    "DefaultCPUAllocator: can't allocate memory",
    "STATUS_ALLOC_FAILED",
    "can't start new thread",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory was short, of the host or of a device."""
    # Messages of XGBoost, Numba, PyTorch, CUDA and Python, whose classes mean other errors too.
    return isinstance(error, MemoryError) or any(word in str(error) for word in WORDS)


def map_row_ranges(
    work: Callable[[int, int], Result],
    n_rows: int,
    backend: Backend,
    what: str,
    n_step_rows: int | None = None,
    noun: str = "rows",
    least: int = LEAST_ROWS,
) -> list[Result]:
    """Return ``[work(start, stop) for each part of the rows]``, in their order; there is one part at least.

    Where a part runs out of memory it is halved, and so are those behind it; that is said in the stage.

    Parameters
    ----------
    work : callable
        What it returns of some rows must not depend on the others.
    n_rows : int
    backend : Backend
        Whose stage says that the rows were split.
    what : str
        What is done with the rows, for messages.
    n_step_rows : int, optional
        Begin with so many; default: all of them at once.
    noun : str
        What is counted, where it is not rows.
    least : int
        What fails with so few is not halved again.

    Raises
    ------
    LimitError
        If even `least` rows are too many.
    """
    found: list[Result] = []
    step, done, failed_at = n_step_rows or max(1, n_rows), 0, 0
    while done < n_rows or not found:
        stop = min(done + step, n_rows)
        try:
            found.append(work(done, stop))
            done = stop
            continue
        except Exception as error:
            if not (isinstance(error, LimitError) or is_out_of_memory(error)):
                raise
            if stop - done <= least:
                raise _does_not_fit(error, f"{stop - done:,} {noun}", backend, what) from error
        # Behind the handler: the error holds what its functions had allocated.
        failed_at = failed_at or stop - done
        step = max(least, _half(stop - done))
    if failed_at:
        backend.remark(f"{what}: out of memory at {failed_at:,} {noun}: went on in parts of {step:,}")
    return found


def too_large(what: str, n_bytes: int, backend: Backend, error: BaseException) -> LimitError:
    """Return the error of something that must be in memory as a whole, and is too large."""
    available = backend.memory().available / GIB
    return LimitError(
        f"no room for {what}: {n_bytes / GIB:.2f} GiB ({error})",
        where=f"the {backend.name}; the host has {available:.2f} GiB free",
        fix=FIX,
    )


def _half(n_rows: int) -> int:
    """Return the greatest power of two up to half of `n_rows`: blocks inside of a step then begin where they did."""
    return 1 << (max(2, n_rows).bit_length() - 2)


def _does_not_fit(error: Exception, how_many: str, backend: Backend, what: str) -> LimitError:
    if isinstance(error, LimitError):
        return error
    memory = backend.memory()
    return LimitError(
        f"{what}: out of memory with {how_many} at a time ({error})",
        where=f"the {backend.name}; the host has {memory.available / GIB:.2f} of {memory.total / GIB:.2f} GiB free",
        fix=FIX,
    )
