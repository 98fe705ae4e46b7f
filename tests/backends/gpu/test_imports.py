"""First imports of a GPU run: cuDF with a recent NumPy, and the libraries that compile kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpupipe_kernels.proof.device_compilers import missing_compiler
from tests.toolkits import Toolkits

# Make NumPy before 2.5 behave like 2.5: numba-cuda 0.30 looks up row_stack while cuDF imports it.
RUN = """
import numpy as np
if hasattr(np, "row_stack"):
    del np.row_stack
from gpupipe.backends.base import DeviceOptions
from gpupipe.backends.gpu.backend import GpuBackend
print(GpuBackend("a test", DeviceOptions(spill={spill})).frame.__name__)
"""
FAKES = {
    "cudf": "import numpy\nnumpy.row_stack\ndef set_option(name, value): pass\n",
    "cupy": """
class cuda:
    class runtime:
        getDevice = staticmethod(lambda: 0)
    class Device:
        compute_capability = "90"
        def __init__(self, number): pass
""",
    "rmm/allocators/cupy": "rmm_cupy_allocator = None\n",
    "rmm": """
class mr:
    class StatisticsResourceAdaptor: pass
    get_current_device_resource = StatisticsResourceAdaptor
""",
}


@pytest.fixture
def fakes(tmp_path: Path) -> Path:
    """A folder with fake packages of RAPIDS; skips where numba-cuda or its libraries are missing."""
    if missing := missing_compiler():
        pytest.skip(missing)
    for name, code in FAKES.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "__init__.py").write_text(code)
    (tmp_path / "rmm" / "allocators" / "__init__.py").write_text("")
    return tmp_path


def test_a_run_imports_cudf_if_numpy_has_no_row_stack(fakes: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(fakes), *filter(None, sys.path)])}
    for spill in (True, False):  # the set-up of memory or the first reader imports cuDF
        command = [sys.executable, "-c", RUN.format(spill=spill)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, "cudf"), done.stderr


WITHOUT_COMPILER = """
import sys
from gpupipe_kernels.device import binaries
if sys.argv[1:] == ["edited"]:
    binaries.is_current = lambda: False
from gpupipe.backends.gpu.backend import GpuBackend
from gpupipe.cli.errors import show_error
from gpupipe.errors import DeviceError
try:
    GpuBackend("a test")
except DeviceError as error:
    raise SystemExit(show_error(error, debug=False))
"""


def test_a_run_of_edited_kernels_without_a_compiler_fails_early_and_names_the_setting(
    fakes: Path, tmp_path: Path
) -> None:
    toolkits = Toolkits(tmp_path)
    toolkits.wheel("libnvrtc.so.13")
    toolkit = toolkits.toolkit(tmp_path / "toolkit", nvvm="nvvm/lib64")
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho '#$ TOP={toolkit}' >&2\n")
    nvcc.chmod(0o755)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(toolkits.path), str(fakes), *filter(None, sys.path)]),
        "PATH": str(tmp_path / "bin"),
        "PACKAGES": str(toolkits.packages),
        "HOME": str(tmp_path),
    }
    as_shipped = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER], env=environment, capture_output=True, text=True, check=False
    )
    assert (as_shipped.returncode, as_shipped.stderr) == (0, "")  # nothing to compile
    command = [sys.executable, "-c", WITHOUT_COMPILER, "edited"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "numba-cuda cannot load libnvvm\n" in done.stderr
    assert f"to do: export CUDA_HOME={toolkit}, or pip install 'numba-cuda[cu13]'" in done.stderr
    done = subprocess.run(
        command, env={**environment, "CUDA_HOME": str(toolkit)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
