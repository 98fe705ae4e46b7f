"""A simulated machine with an NVIDIA driver, complete or broken, for tests that run anywhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_name("fake_driver.c")
HIDING = ("GPUPIPE_FORCE_CPU", "CUDA_VISIBLE_DEVICES", "GPUPIPE_THREADS", "LD_LIBRARY_PATH")


@pytest.fixture(scope="session")
def run_python() -> Callable[..., Any]:
    """Return a function that runs code in a fresh process and returns the JSON that it prints."""
    return _run_python


def _run_python(code: str, **environment: str) -> Any:
    clean = {name: value for name, value in os.environ.items() if name not in HIDING}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return folders of driver libraries by what they are: complete, without CUDA, too old to answer everything."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the fake driver cannot be built")
    if sys.platform != "linux":
        pytest.skip("the driver libraries have these names on Linux only")
    folder = tmp_path_factory.mktemp("drivers")
    kinds: dict[str, dict[str, list[str]]] = {
        "complete": {"libnvidia-ml.so.1": [], "libcuda.so.1": []},
        "without cuda": {"libnvidia-ml.so.1": []},
        "old": {"libnvidia-ml.so.1": ["-DOLD"], "libcuda.so.1": []},
    }
    for kind, libraries in kinds.items():
        (folder / kind).mkdir()
        for library, flags in libraries.items():
            output = str(folder / kind / library)
            subprocess.run([compiler, "-shared", "-fPIC", *flags, str(SOURCE), "-o", output], check=True)
    return {kind: str(folder / kind) for kind in kinds}
