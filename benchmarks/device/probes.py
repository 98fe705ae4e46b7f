"""First checks of a GPU machine, each of a few seconds: their errors are more specific than those of a failing step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

Save = Callable[[Mapping[str, Any]], None]

VERSIONS = (
    "numpy", "numba", "llvmlite", "pandas", "pyarrow", "scikit-learn", "scipy", "cupy", "torch", "cuda-", "cudf",
    "cuml", "rmm", "xgboost", "nvidia-", "pydantic",
)  # fmt: skip
KERNEL, KERNEL_ROWS = "haversine", 5_000


def run_probes(save: Save) -> dict[str, Any]:
    """Run each probe whose packages are installed, and save after each; an error does not stop the next."""
    document: dict[str, Any] = {"lines": [], "failed": [], "probes": {}}
    for probe, packages in PROBES.items():
        name, start = probe.__name__, time.monotonic()
        if missing := [package for package in packages if find_spec(package) is None]:
            document["lines"].append(f"{name}: skipped, not installed: {', '.join(missing)}")
            continue
        try:
            answer = document["probes"][name] = probe()
        except Exception as error:  # from any library
            answer = f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
            document["failed"].append(f"{name}: {answer}")
        document["lines"].append(f"{name}: {answer} ({time.monotonic() - start:.1f} s)")
        save(document)
    return document


def versions() -> dict[str, str]:
    """Return the versions of the relevant libraries."""
    from importlib.metadata import distributions

    found = ((one.metadata["Name"] or "", one.version) for one in distributions())
    return {name: version for name, version in sorted(found) if name.lower().startswith(VERSIONS)}


def kernel_of_the_package() -> str:
    """Run one kernel of gpupipe, and return its largest error and whether Numba had to compile it.

    Raises
    ------
    RuntimeError
        If it does not equal its reference.
    """
    from gpupipe_kernels.catalog import kernels
    from gpupipe_kernels.proof.fuzz import compare, on_device

    kernel = kernels()[KERNEL]
    outcome = compare(kernel, on_device(kernel), 0, KERNEL_ROWS)
    if outcome.failure:
        raise RuntimeError(f"{KERNEL}: {outcome.failure}")
    how = "numba-cuda is loaded" if "numba.cuda" in sys.modules else "without numba-cuda"
    return f"{KERNEL} is {outcome.share:.2f} of its tolerance, {how}"


def kernel_compiled_here() -> bool:
    """Return whether Numba compiles a kernel with the correct result."""
    import numpy as np

    from gpupipe_kernels.numpy_compat import restore_row_stack

    restore_row_stack()
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


def gpu_backend() -> str:
    """Select the GPU backend, and return the reason and its free memory."""
    from gpupipe.backends import choose

    backend = choose("gpu")
    return f"{backend.reason}, {backend.free_bytes() >> 30} GiB free"


# Required packages. The first kernel comes before Numba is loaded for another reason.
PROBES: dict[Callable[[], object], tuple[str, ...]] = {
    versions: (),
    kernel_of_the_package: (),
    kernel_compiled_here: ("numba_cuda",),
    cupy_sorts_negative_nan_last: ("cupy",),
    gpu_backend: ("cupy",),
}
