"""A machine without libraries for numba-cuda, and toolkits for it, for tests in child processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Python runs this module first, as it is first on the path: it hides the libraries of this machine and environment from
# cuda-pathfinder, which then searches the folders of the test in its usual order.
HIDING = """
import ctypes, importlib.metadata as metadata, os, re, site

class CDLL(ctypes.CDLL):
    def __init__(self, name, *arguments, **settings):
        if isinstance(name, str) and re.match("lib(nvvm|nvrtc|cudart)", name):
            folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
            files = [os.path.join(folder, name) for folder in folders if folder]
            name = next((file for file in files if os.path.isfile(file)), "/hidden/" + name)
        super().__init__(name, *arguments, **settings)

def distribution(name):
    if name.startswith("nvidia-"):
        raise metadata.PackageNotFoundError(name)
    return installed(name)

installed, metadata.distribution, ctypes.CDLL = metadata.distribution, distribution, CDLL
packages, site.getsitepackages, site.ENABLE_USER_SITE = None, lambda: [os.environ["PACKAGES"]], False
"""


class Toolkits:
    """Folders in which numba-cuda's libraries are, or are not.

    Attributes
    ----------
    path : Path
        To be put first on the path of imports.
    packages : Path
        What takes the place of ``site-packages`` for NVIDIA's wheels: the variable ``PACKAGES``.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self.packages = folder / "hiding", folder / "packages"
        self.path.mkdir()
        self.packages.mkdir()
        (self.path / "sitecustomize.py").write_text(HIDING)
        self._library = folder / "library.so"
        from cuda.pathfinder import load_nvidia_dynamic_lib

        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None or sys.platform != "linux":
            pytest.skip("a library must be built: it needs a C compiler, on Linux")
        command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(self._library)]
        subprocess.run(command, input=b"int nothing;", check=True)
        # numba.cuda does not import without the real one.
        runtime = Path(str(load_nvidia_dynamic_lib("cudart").abs_path))
        wheels = self.packages / "nvidia" / "cu13" / "lib"
        wheels.mkdir(parents=True)
        (wheels / runtime.name).symlink_to(runtime)

    def wheel(self, *names: str) -> None:
        """Add libraries where NVIDIA's wheels have them."""
        self._copy(self.packages / "nvidia" / "cu13" / "lib", names)

    def toolkit(self, folder: Path, nvvm: str) -> Path:
        """Make a toolkit of CUDA 13 whose libnvvm is in the folder `nvvm` of it; return its folder."""
        self._copy(folder / "lib64", ["libnvrtc.so.13"])
        self._copy(folder / nvvm, ["libnvvm.so.4"])
        (folder / "nvvm" / "libdevice").mkdir(parents=True)
        (folder / "nvvm" / "libdevice" / "libdevice.10.bc").touch()
        return folder

    def _copy(self, folder: Path, names: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:  # type: ignore[attr-defined]
            shutil.copy(self._library, folder / name)
