"""Comparison of every kernel with its reference, on adversarial inputs.

``python -m gpupipe_kernels.proof.fuzz`` prints one JSON line per kernel. Device kernels run on the GPU, or in Numba's
simulator if the environment variable ``NUMBA_ENABLE_CUDASIM=1`` is set. Numba reads it at import, so switching requires
a new process.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpupipe_kernels.contract import Argument, KernelDeclaration
from gpupipe_kernels.launch import THREADS_A_BLOCK, is_simulated
from gpupipe_kernels.typing import HostArray

BLOCK = THREADS_A_BLOCK  # rows
MOST_SIMULATED_ROWS = 2 * BLOCK + 1  # the simulator runs only 10,000 threads per second
MOST_SHRINK_ROWS = 33


@dataclass(frozen=True)
class KernelComparison:
    """The result of a kernel's comparison on one processor.

    Attributes
    ----------
    max_error : float
        The largest absolute difference from the reference.
    share : float
        The largest difference as a share of the tolerance; more than 1 fails.
    strides : {"taken", "refused"}
        Whether the kernel accepted non-contiguous arrays.
    failure : str
        The smallest failing case, or ``""``.
    """

    cases: int
    max_error: float
    share: float
    strides: str
    failure: str


@dataclass(frozen=True)
class FuzzCase:
    """The parameters that reproduce the inputs of a comparison.

    Attributes
    ----------
    variation : {"sample", "all null", "extremes", "strided"}
    """

    seed: int
    n_rows: int
    variation: str

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.n_rows} row{'s' * (self.n_rows != 1)}, {self.variation}"


class Mismatch(Exception):
    """A kernel's results differ from its declaration; the message describes the difference."""


def compare(kernel: KernelDeclaration, run: Callable[..., Any], seed: int, n_rows: int) -> KernelComparison:
    """Compare `run`, a function of host arrays, with the reference of `kernel`, and return the result.

    Parameters
    ----------
    run : callable
        ``kernel.cpu``, or the result of `on_device`.
    seed : int
        Seed of the inputs, which it determines.
    n_rows : int
        The largest size; sizes around the border of a block come first.
    """
    worst = (0.0, 0.0)
    strides = "taken"
    n_cases = 0
    for case in _cases(kernel, seed, n_rows):
        try:
            error = _error_of(kernel, run, case)
        except Mismatch as mismatch:
            return KernelComparison(n_cases, *worst, strides, _smallest(kernel, run, case, str(mismatch)))
        n_cases += 1
        if error is None:
            strides = "refused"
        else:
            worst = max(worst[0], error[0]), max(worst[1], error[1])
    return KernelComparison(n_cases, *worst, strides, "")


def _cases(kernel: KernelDeclaration, seed: int, n_rows: int) -> Iterator[FuzzCase]:
    for n in (*(n for n in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1) if n < n_rows), n_rows):
        yield FuzzCase(seed, n, "sample")
    if any(argument.null is not None for argument in kernel.inputs):
        for n in (1, n_rows):
            yield FuzzCase(seed, n, "all null")
            yield FuzzCase(seed, n, "extremes")
    yield FuzzCase(seed, n_rows, "strided")


def _smallest(kernel: KernelDeclaration, run: Callable[..., Any], failed: FuzzCase, how: str) -> str:
    """Return the description of the smallest failing case of the same variation."""
    for n in range(min(failed.n_rows, MOST_SHRINK_ROWS)):
        case = FuzzCase(failed.seed, n, failed.variation)
        try:
            _error_of(kernel, run, case)
        except Mismatch as mismatch:
            return f"{case}: {mismatch}"
    return f"{failed}: {how}"


def _error_of(kernel: KernelDeclaration, run: Callable[..., Any], case: FuzzCase) -> tuple[float, float] | None:
    """Return the largest error and its share of the tolerance; None if strided inputs were rejected."""
    inputs = inputs_of(kernel, case)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # the simulator warns about intended uint32 overflow
        expected = _as_tuple(kernel.reference(*inputs))
        try:
            got = _as_tuple(run(*inputs))
        except ValueError as error:
            if case.variation == "strided":
                return None
            raise Mismatch(f"{type(error).__name__}: {error}") from error
        except Exception as error:
            raise Mismatch(f"{type(error).__name__}: {error}") from error
        return _compare_all(kernel, expected, got)


def inputs_of(kernel: KernelDeclaration, case: FuzzCase) -> tuple[Any, ...]:
    """Return the inputs of `kernel` for a case."""
    rng = np.random.default_rng([case.seed, case.n_rows])
    inputs = kernel.sample(rng, case.n_rows)
    if case.variation == "sample":
        return inputs
    if case.variation == "strided":
        return tuple(_strided(value) if isinstance(value, np.ndarray) else value for value in inputs)
    changed = list(inputs)
    for i, argument in enumerate(kernel.inputs):
        if argument.null is not None:
            values = extremes(argument) if case.variation == "extremes" else np.array([argument.null])
            changed[i] = rng.choice(values, size=inputs[i].shape).astype(inputs[i].dtype)
    return tuple(changed)


def extremes(argument: Argument) -> HostArray:
    """Return the extreme values of an input, including null."""
    dtype = np.dtype(argument.dtype)
    if dtype.kind == "f":
        most, least = float(np.finfo(dtype).max), float(np.finfo(dtype).smallest_subnormal)
        values = [np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, most, -most, least, -least]
    else:
        limits = np.iinfo(dtype)
        values = [limits.min, limits.min + 1, -1, 0, 1, limits.max - 1, limits.max]
    ends = [end for end in (argument.least, argument.greatest) if np.isfinite(end)]
    allowed = [value for value in values if argument.least <= value <= argument.greatest]
    return np.array([argument.null, *ends, *allowed], dtype)


def _strided(array: HostArray) -> HostArray:
    """Return a non-contiguous copy: every third element of a longer array."""
    if array.ndim == 0:
        return array
    apart = np.zeros((*array.shape[:-1], 3 * array.shape[-1]), array.dtype)[..., ::3]
    apart[...] = array
    return apart


def _compare_all(kernel: KernelDeclaration, expected: tuple[Any, ...], got: tuple[Any, ...]) -> tuple[float, float]:
    if not len(expected) == len(got) == len(kernel.outputs):
        raise Mismatch(
            f"expected {len(kernel.outputs)} results as declared, got {len(got)}; the reference returns {len(expected)}"
        )
    worst = (0.0, 0.0)
    for argument, a, b in zip(kernel.outputs, expected, got, strict=True):
        if b.dtype != argument.dtype or b.shape != np.shape(a):
            raise Mismatch(f"expected {argument.name} to be {argument.dtype} {np.shape(a)}, got {b.dtype} {b.shape}")
        error = difference(np.asarray(a).astype(argument.dtype), b, kernel.rtol, kernel.atol)
        worst = max(worst[0], error[0]), max(worst[1], error[1])
    return worst


def difference(expected: HostArray, got: HostArray, rtol: float, atol: float) -> tuple[float, float]:
    """Return the largest absolute difference, and the largest as a share of ``atol + rtol * abs(expected)``.

    Raise Mismatch if a difference exceeds the tolerance; NaN equals NaN, and an infinity equals only itself.
    """
    same = (expected == got) | ((expected != expected) & (got != got))
    if same.all():
        return 0.0, 0.0
    places = np.argwhere(~same)
    exact = np.float64 if np.issubdtype(expected.dtype, np.floating) else object  # integers of any size
    a, b = expected[~same].astype(exact), got[~same].astype(exact)
    apart, allowed = np.abs(a - b).astype(np.float64), atol + rtol * np.abs(a).astype(np.float64)
    wrong = ~(np.isfinite(apart) & (apart <= allowed))
    if wrong.any():
        i = int(np.argmax(wrong))
        at = ", ".join(map(str, places[i]))
        raise Mismatch(
            f"row {at}: expected {a[i]!s}, got {b[i]!s} ({int(wrong.sum())} of {same.size} values are wrong)"
        )
    return float(apart.max()), float((apart / allowed).max())


def on_device(kernel: KernelDeclaration) -> Callable[..., Any]:
    """Return a function of host arrays that runs `kernel` on the device and copies the results back."""
    from gpupipe_kernels.device import arrays

    def there(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        if value.ndim and value.size and not value.flags.c_contiguous:  # only views of contiguous arrays can be copied
            return arrays.upload(np.ascontiguousarray(value.base))[..., ::3]
        return arrays.upload(value)

    def run(*inputs: Any) -> tuple[Any, ...]:
        return tuple(map(arrays.download, _as_tuple(kernel.gpu(*map(there, inputs)))))

    return run


def device_name() -> str:
    """Return the device of this process: the name of the GPU, or ``"simulator"``."""
    if is_simulated():
        return "simulator"
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["name"].decode())


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the named kernels, or all; print a JSON line for each, and return 1 if any failed."""
    from gpupipe_kernels.catalog import kernels

    parser = argparse.ArgumentParser(prog="python -m gpupipe_kernels.proof.fuzz")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rows", type=int, default=10_000, help="largest number of rows (fewer in the simulator)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    where, failed = device_name(), False
    n_device_rows = min(options.rows, MOST_SIMULATED_ROWS) if is_simulated() else options.rows
    for name in options.names or kernels():
        kernel = kernels()[name]
        cpu = compare(kernel, kernel.cpu, options.seed, options.rows)
        device = compare(kernel, on_device(kernel), options.seed, n_device_rows)
        failed |= bool(cpu.failure or device.failure)
        line = {"kernel": name, "where": where, "cpu": asdict(cpu), "device": asdict(device)}
        print(json.dumps(line), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
