"""Recovery from out-of-memory errors: row-wise work continues with fewer rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from gpupipe.errors import LimitError
from gpupipe.units import GIB

if TYPE_CHECKING:
    from gpupipe.backends.base import Backend

Result = TypeVar("Result")

LEAST_ROWS = 1024  # with so few rows, the rows are not the cause
FIX = (
    "use fewer columns (drop), codes instead of one-hot columns (tree models, target_encode), fewer rows (where), or "
    "more memory; `gpupipe plan` estimates the need of a run"
)

# NumPy, Arrow, cuDF, CuPy and RMM raise MemoryErrors. XGBoost, Numba, PyTorch, CUDA's runtime, libraries used by cuML
# and CuPy, and Python, if it cannot allocate the stack of a thread, raise other errors with these words.
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
    """Return whether an error is an out-of-memory error of the host or a device."""
    # Messages of XGBoost, Numba, PyTorch, CUDA and Python, whose classes have other causes too.
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
    """Return ``[work(start, stop) for each range of rows]`` in order; there is at least one range.

    If a range runs out of memory, it and all later ones are halved, with a warning in the stage of `backend`; a range
    of `least` rows is not halved again. The result of `work` for some rows must not depend on other rows. `n_step_rows`
    is the initial size of a range, by default all rows; `what` names the work and `noun` its unit in messages. Raise
    LimitError if `least` rows are still too many.
    """
    found: list[Result] = []
    step = n_step_rows or max(1, n_rows)
    done = 0
    failed_at = 0
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
        # Outside the handler: the error keeps the memory of its frames alive.
        failed_at = failed_at or stop - done
        step = max(least, _half(stop - done))
    if failed_at:
        backend.note(f"{what}: out of memory at {failed_at:,} {noun}: continued with {step:,} at a time")
    return found


def too_large(what: str, n_bytes: int, backend: Backend, error: BaseException) -> LimitError:
    """Return the error for data that cannot be split and does not fit in memory."""
    available = backend.memory().available / GIB
    return LimitError(
        f"no room for {what}: {n_bytes / GIB:.2f} GiB ({error})",
        where=f"the {backend.name}; the host has {available:.2f} GiB free",
        fix=FIX,
    )


def _half(n_rows: int) -> int:
    """Return the largest power of two up to half of `n_rows`, so that blocks inside a step start where they did."""
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
