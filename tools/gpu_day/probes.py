"""Quick checks of a GPU machine, each of a few seconds: ``python3 -m tools.gpu_day.probes NAME ...``.

Prints a line for each: the result and its seconds, or the error. They run before the steps, because their errors are
more specific than those of a failing step.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any


def versions() -> dict[str, str]:
    """Return the versions of the relevant libraries, both installed and carried."""
    from importlib.metadata import distributions

    words = ("numpy", "numba", "llvmlite", "pandas", "pyarrow", "scikit-learn", "scipy", "cupy", "torch", "cuda-",
             "cudf", "cuml", "rmm", "xgboost", "nvidia-", "jax")  # fmt: skip
    found = ((one.metadata["Name"] or "", one.version) for one in distributions())
    return {name: version for name, version in sorted(found) if name.lower().startswith(words)}


def numba_kernel() -> bool:
    """Return whether Numba compiles a kernel with the correct result."""
    import numpy as np
    from numba import cuda

    @cuda.jit  # type: ignore[untyped-decorator, unused-ignore]
    def add_one(x: Any) -> None:
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    x = cuda.to_device(np.zeros(1000))
    add_one[8, 128](x)
    return bool((x.copy_to_host() == 1).all())


def cupy_sorts_negative_nan_last() -> dict[str, bool]:
    """Return, for each dtype, whether `cupy.sort` puts a NaN with the sign bit set at the end, as NumPy does."""
    import cupy
    import numpy as np

    x = np.array([2.0, 0.0, 1.0])
    x[1] = np.copysign(np.nan, -1)
    return {name: bool(cupy.isnan(cupy.sort(cupy.asarray(x.astype(name))))[-1]) for name in ("float64", "float32")}


def xgboost_on_cupy() -> str:
    """Train on a CuPy matrix and return XGBoost's version."""
    import cupy
    import xgboost

    X, y = cupy.asfortranarray(cupy.random.rand(10_000, 5, dtype="float32")), cupy.random.rand(10_000)
    booster = xgboost.train({"device": "cuda", "max_depth": 3}, xgboost.QuantileDMatrix(X, y), 5)
    assert len(booster.get_dump()) == 5
    return str(xgboost.__version__)


def cudf_reads() -> str:
    """Sum and factorize with cuDF, select the GPU backend, and return its free memory."""
    import cudf

    from gpupipe.backends import choose

    assert cudf.Series([1, 2]).sum() == 3
    codes = cudf.Series(["b", "a", None, "b"]).factorize()[0].tolist()
    assert codes == [0, 1, -1, 0], codes
    backend = choose("gpu")
    return f"cuDF {cudf.__version__}, {backend.reason}, {backend.free_bytes() >> 30} GiB free"


PROBES: dict[str, Callable[[], object]] = {
    probe.__name__: probe
    for probe in (versions, numba_kernel, cupy_sorts_negative_nan_last, xgboost_on_cupy, cudf_reads)
}


def main(names: Sequence[str]) -> int:
    """Print a line for each probe; return 1 if one raised an error."""
    failed = False
    for name in names:
        start = time.monotonic()
        try:
            answer = str(PROBES[name]())
        except Exception as error:  # from any library; the other probes still run
            failed, answer = True, f"FAILED: {type(error).__name__}: {str(error).strip()[:600]}"
        print(f"{name}: {answer} ({time.monotonic() - start:.1f} s)", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
