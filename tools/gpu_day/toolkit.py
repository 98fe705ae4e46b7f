"""Search for the GPU machine's CUDA toolkit and libnvvm, which Numba needs to compile kernels.

cuda-pathfinder searches ldconfig, LD_LIBRARY_PATH and CUDA_HOME for libnvvm, but neither nvcc's folder nor the folders
of PYTHONPATH; PyTorch's wheels do not contain it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

LIBRARY = "libnvvm.so.4"


def toolkit_environment(site: Path) -> dict[str, str]:
    """Return the variables with which Numba finds a toolkit and libnvvm: CUDA_HOME and LD_LIBRARY_PATH, if found."""
    found = {}
    home = next((home for home in _homes(site) if (home / "nvvm" / "libdevice").is_dir()), None)
    if home is not None:
        found["CUDA_HOME"] = str(home.resolve())
    folders = [
        site / "nvidia" / "cu13" / "lib",
        *([home] if home else []),
        Path("/usr/local"),
        Path("/usr/lib"),
        Path("/opt"),
    ]
    library = next((path for folder in folders if folder.is_dir() for path in folder.rglob(LIBRARY)), None)
    if library is not None:
        alone = site / "nvvm"  # a folder that also contains other libraries would shadow those of the wheels
        alone.mkdir(parents=True, exist_ok=True)
        link = alone / LIBRARY
        link.unlink(missing_ok=True)
        link.symlink_to(library.resolve())
        found["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(alone), os.environ.get("LD_LIBRARY_PATH")]))
    return found


def _homes(site: Path) -> Iterator[Path]:
    """Yield candidate folders of a CUDA toolkit, most specific first."""
    if home := os.environ.get("CUDA_HOME"):
        yield Path(home)
    if nvcc := shutil.which("nvcc"):  # nvcc may be a wrapper script; its dry run prints the toolkit's folder
        done = subprocess.run(
            [nvcc, "--dryrun", "-x", "cu", os.devnull], capture_output=True, text=True, errors="replace", check=False
        )
        if top := re.search(r"^#\$ TOP=(.*)$", done.stderr, re.MULTILINE):
            yield Path(top[1].strip())
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-13*"))
    yield from sorted(Path("/opt").glob("cuda*"))
    yield site / "nvidia" / "cu13"
