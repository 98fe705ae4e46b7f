"""Simulated broken machines: real metadata folders, real packages, and a driver built from C."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import Distributions, read_distributions
from gpupipe.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DRIVER_SOURCE = ROOT / "tests" / "backends" / "fake_driver.c"

H100 = GpuProbe(
    usable=True,
    reason="NVIDIA H100, driver 580.95.05",
    count=1,
    name="NVIDIA H100",
    driver="580.95.05",
    cuda=(13, 0),
    capability=(9, 0),
    memory_bytes=80 * 2**30,
    free_bytes=79 * 2**30,
)


@pytest.fixture
def gpu() -> GpuProbe:
    """A GPU that everything runs on."""
    return H100


class Site:
    """A folder of installed packages, as pip leaves it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder, monkeypatch
        folder.mkdir()

    def add(self, name: str, version: str, requires: Sequence[str] = ()) -> Path:
        """Add a distribution; return its metadata folder."""
        folder = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        (folder / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {line}" for line in requires), ""]))
        return folder

    def add_gpupipe(self) -> None:
        """Add gpupipe as a wheel would: what it asks for, and its entry points."""
        requires = list(PROJECT["dependencies"])
        for extra, lines in PROJECT["optional-dependencies"].items():
            for line in lines:
                what, _, marker = line.partition(";")
                condition = f"({marker.strip()}) and extra == '{extra}'" if marker else f"extra == '{extra}'"
                requires.append(f"{what}; {condition}")
        entries = PROJECT["entry-points"]["rapids_doctor_check"]
        text = "[rapids_doctor_check]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        (self.add("gpupipe", __version__, requires) / "entry_points.txt").write_text(text)

    def module(self, name: str, code: str) -> None:
        """Add a package that runs `code` when it is imported."""
        (self.folder / name).mkdir()
        (self.folder / name / "__init__.py").write_text(code)

    def read(self) -> Distributions:
        """Return what doctor reads where nothing else is installed."""
        with self._monkeypatch.context() as patched:
            patched.setattr(sys, "path", [str(self.folder)])
            return read_distributions()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """An empty folder of packages."""
    return Site(tmp_path / "site", monkeypatch)


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes the root folder of a machine: ``machine({"proc/version": "…"})``."""

    def make(files: dict[str, str]) -> Path:
        for name, text in files.items():
            (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "root" / name).write_text(text)
        return tmp_path / "root"

    return make


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder that holds a driver: the one that the probe is tested with."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the fake driver cannot be built")
    if sys.platform != "linux":
        pytest.skip("the driver libraries have these names on Linux only")
    folder = tmp_path_factory.mktemp("driver")
    for library in ("libnvidia-ml.so.1", "libcuda.so.1"):
        subprocess.run([compiler, "-shared", "-fPIC", str(DRIVER_SOURCE), "-o", str(folder / library)], check=True)
    return str(folder)
