"""Download of wheels for the GPU machine's Python, and their installation into a folder without unneeded files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.gpu_day.fatbin import Blanked, blank_other_architectures

PYTHON, ARCHITECTURE = "3.12", 90  # the GPU machine has an H100 or H200
MANYLINUX = (39, 38, 35, 34, 31, 28, 27, 26, 24, 17)
# C++ headers, CMake files, test suites; but not numpy/f2py (imported by SciPy's `from numpy import *`), cudf/_lib or
# pylibcudf/libcudf (compiled modules).
UNUSED_FOLDERS = (
    "lib*/include", "rapids_logger/include", "libucx/include", "nvidia/libnvcomp/include", "nvidia/cu13/include",
    "nvidia/cu13/nvvm/bin", "treelite/include", "lib*/lib64/cmake", "lib*/lib/cmake", "rapids_logger/lib64/cmake",
    "lib*/lib64/rapids", "pandas/tests", "numpy/*/tests", "numpy/*/*/tests", "numba/tests", "numba/cuda/tests",
    "numba_cuda/numba/cuda/tests", "cudf/pandas/scripts", "dask/*/tests", "dask/tests", "distributed/tests",
    "distributed/*/tests", "dask_cuda/tests", "tornado/test", "pylibcudf/tests", "cuml/tests", "rmm/tests",
    "xgboost/spark", "xgboost/testing", "bin", "include", "shared-actions",
)  # fmt: skip
UNUSED_FILES = ("**/*.a", "**/*.pyx", "**/*.hpp", "**/*.cuh", "libucx/lib/ucx/libucx_perftest*")


def read_stages(path: Path) -> dict[str, list[str]]:
    """Return stage to requirements for a file of ``[stage]`` headings and one requirement per line."""
    stages: dict[str, list[str]] = {}
    for raw in path.read_text(encoding="utf8").splitlines():
        line = raw.partition("#")[0].strip()
        if line.startswith("["):
            stages[line.strip("[]")] = []
        elif line:
            stages[list(stages)[-1]].append(line)
    return stages


def download(requirements: Sequence[str], folder: Path) -> None:
    """Download one wheel for each requirement, without its dependencies."""
    _pip("download", *_target(), "--dest", str(folder), *requirements)


def install(requirements: Sequence[str], wheels: Path, site: Path) -> None:
    """Install the wheels of a folder into `site`, prune it, and keep only the machine code of `ARCHITECTURE`."""
    # The wheels were chosen for the GPU machine's Python; pip checks their requirement against its own.
    options = ["--quiet", "--no-index", "--no-compile", "--ignore-requires-python", "--find-links", str(wheels)]
    _pip("install", *options, *_target(), "--target", str(site), *requirements)
    prune(site)
    total = Blanked()
    for path in sorted(path for path in site.rglob("*.so*") if path.is_file() and not path.is_symlink()):
        if (found := blank_other_architectures(path, ARCHITECTURE)) is not None:
            total.kept_bytes += found.kept_bytes
            total.blanked_bytes += found.blanked_bytes
    if total.kept_bytes:
        kept, blanked = total.kept_bytes / 1e6, total.blanked_bytes / 1e6
        print(f"  device code: {kept:.1f} MB of sm_{ARCHITECTURE} kept, {blanked:.1f} MB blanked", flush=True)


def prune(site: Path) -> None:
    """Remove files that are not needed at run time, including debugging symbols."""
    for pattern in UNUSED_FOLDERS:
        for folder in site.glob(pattern):
            if folder.is_dir():
                shutil.rmtree(folder)
    for pattern in UNUSED_FILES:
        for file in site.glob(pattern):
            file.unlink()
    if strip := shutil.which("strip"):
        for library in site.glob("nvtx/**/*.so"):  # saves 9 of 11 MB
            subprocess.run([strip, "--strip-debug", str(library)], check=True)


def _target() -> list[str]:
    """Return pip's options for wheels of the GPU machine's Python."""
    options = [
        "--no-deps", "--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp",
        "--abi", "cp" + PYTHON.replace(".", ""), "--abi", "abi3", "--abi", "none",
    ]  # fmt: skip
    tags = [*(f"manylinux_2_{minor}_x86_64" for minor in MANYLINUX), "manylinux2014_x86_64", "manylinux1_x86_64"]
    return [*options, *(word for tag in tags for word in ("--platform", tag))]


def _pip(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pip {arguments[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
