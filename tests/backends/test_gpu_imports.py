"""`import cudf` on a NumPy without ``row_stack``, which numba-cuda 0.30 looks up while cuDF imports it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# A NumPy before 2.5, as 2.5 is.
RUN = """
import numpy as np
if hasattr(np, "row_stack"):
    del np.row_stack
from gpupipe.backends.base import DeviceOptions
from gpupipe.backends.gpu import GpuBackend
print(GpuBackend("a test", DeviceOptions(spill={spill})).frame.__name__)
"""
FAKES = {
    "cudf": "import numpy\nnumpy.row_stack\ndef set_option(name, value): pass\n",
    "cupy": "",
    "rmm/allocators/cupy": "rmm_cupy_allocator = None\n",
    "rmm": """
class mr:
    class StatisticsResourceAdaptor: pass
    get_current_device_resource = StatisticsResourceAdaptor
""",
}


def test_a_run_imports_cudf_where_numpy_has_no_row_stack(tmp_path: Path) -> None:
    for name, code in FAKES.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "__init__.py").write_text(code)
    (tmp_path / "rmm" / "allocators" / "__init__.py").write_text("")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    for spill in (True, False):  # cuDF is imported while memory is set up, or by the first reader
        command = [sys.executable, "-c", RUN.format(spill=spill)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, "cudf"), done.stderr
