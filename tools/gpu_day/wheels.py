"""Wheels for the GPU machine's Python: consistent versions, and their installation without unneeded files."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tools.gpu_day.fatbin import Blanked, blank_other_architectures

PYTHON, ARCHITECTURE = "3.12", 90  # the GPU machine has an H100 or H200
MANYLINUX = (39, 38, 35, 34, 31, 28, 27, 26, 24, 17)
MARKERS = {
    "python_version": PYTHON, "python_full_version": f"{PYTHON}.3", "implementation_name": "cpython",
    "os_name": "posix", "platform_machine": "x86_64", "platform_python_implementation": "CPython",
    "platform_system": "Linux", "sys_platform": "linux", "extra": "",
}  # fmt: skip
UNUSED = (
    "lib*/include", "rapids_logger/include", "nvidia/*/include", "nvidia/cu13/nvvm/bin", "lib*/lib64/cmake",
    "lib*/lib/cmake", "rapids_logger/lib64/cmake", "lib*/lib64/rapids", "pandas/tests", "cudf/pandas/scripts",
    "pylibcudf/tests", "rmm/tests", "xgboost/spark", "xgboost/testing", "bin", "include", "**/*.a", "**/*.pyx",
    "**/*.hpp", "**/*.cuh",
)  # fmt: skip


class Wheel(NamedTuple):
    """A wheel file.

    Attributes
    ----------
    path : Path
    name : str
        Canonical name of the project.
    version : Version
    """

    path: Path
    name: str
    version: Version

    @staticmethod
    def of(path: Path) -> Wheel:
        """Return the wheel of a file."""
        name, version, _, _ = parse_wheel_filename(path.name)
        return Wheel(path, name, version)

    def requirements(self) -> Iterator[Requirement]:
        """Yield the requirements that apply to the GPU machine."""
        with zipfile.ZipFile(self.path) as archive:
            (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            text = archive.read(metadata).decode("utf8")
        for line in Parser().parsestr(text).get_all("Requires-Dist") or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(MARKERS):
                yield requirement


def read_requirements(path: Path) -> dict[str, list[str]]:
    """Return section to requirements for a file with one requirement per line under ``[section]`` headings.

    Lines before the first heading are in the section ``""``.
    """
    sections: dict[str, list[str]] = {"": []}
    for raw in path.read_text(encoding="utf8").splitlines():
        line = raw.partition("#")[0].strip()
        if line.startswith("["):
            sections[line.strip("[]")] = []
        elif line:
            sections[list(sections)[-1]].append(line)
    return {name: lines for name, lines in sections.items() if lines}


def conflicts(wheels: Sequence[Wheel], machine: Mapping[str, Requirement]) -> dict[str, Requirement]:
    """Return name to requirement for requirements of `wheels` that neither the wheels nor the machine satisfy.

    Parameters
    ----------
    wheels : sequence of Wheel
    machine : mapping of str to Requirement
        Canonical names of the packages of the machine, with the version if it is pinned.
    """
    carried = {wheel.name: wheel.version for wheel in wheels}
    found: dict[str, Requirement] = {}
    for wheel in wheels:
        for requirement in wheel.requirements():
            name = canonicalize_name(requirement.name)
            if name in carried:
                is_met = requirement.specifier.contains(carried[name], prereleases=True)
            else:
                pinned = [one.version for one in machine[name].specifier] if name in machine else []
                is_met = name in machine and all(
                    version.endswith(".*") or requirement.specifier.contains(version) for version in pinned
                )
            if not is_met:
                found[name] = requirement
    return found


def download(requirements: Sequence[str], folder: Path, machine: Mapping[str, Requirement]) -> list[Wheel]:
    """Download one wheel for each requirement, without its dependencies, in versions that fit each other.

    Where a wheel requires another version of a requirement (pydantic pins its core), that version replaces the newest.
    ``!name`` is not downloaded, whatever requires it.

    Raises
    ------
    SystemExit
        If a package is missing, or no versions fit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ignored = {canonicalize_name(line[1:]) for line in requirements if line.startswith("!")}
    wanted = [line for line in requirements if not line.startswith("!")]
    _pip("download", *_target(), "--dest", str(folder), *wanted)
    wheels = [Wheel.of(path) for path in sorted(folder.glob("*.whl"))]
    for _ in wanted:
        named = {wheel.name: wheel for wheel in wheels}
        unmet = {name: one for name, one in conflicts(wheels, machine).items() if name not in ignored}
        if not unmet:
            return wheels
        if missing := unmet.keys() - named.keys():
            raise SystemExit(f"neither carried nor on the machine: {', '.join(str(unmet[name]) for name in missing)}")
        for name, requirement in unmet.items():
            named[name].path.unlink()
            _pip("download", *_target(), "--dest", str(folder), str(requirement))
        wheels = [Wheel.of(path) for path in sorted(folder.glob("*.whl"))]
    raise SystemExit(f"no versions fit: {', '.join(map(str, conflicts(wheels, machine).values()))}")


def slim(wheels: Sequence[Wheel], site: Path, target: Path) -> None:
    """Write the contents of wheels without unneeded files, and with one architecture's device code, as a .zip.

    Parameters
    ----------
    wheels : sequence of Wheel
    site : Path
        Folder for the unpacked files, which is replaced.
    target : Path
    """
    shutil.rmtree(site, ignore_errors=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel.path) as archive:
            archive.extractall(site)
    for pattern in UNUSED:
        for path in list(site.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    total = Blanked()
    for path in sorted(path for path in site.rglob("*.so*") if path.is_file()):
        if (found := blank_other_architectures(path, ARCHITECTURE)) is not None:
            total.kept_bytes += found.kept_bytes
            total.blanked_bytes += found.blanked_bytes
    if total.kept_bytes:
        kept, blanked = total.kept_bytes / 1e6, total.blanked_bytes / 1e6
        print(f"  device code: {kept:.1f} MB of sm_{ARCHITECTURE} kept, {blanked:.1f} MB blanked", flush=True)
    write_zip({str(path.relative_to(site)): path for path in sorted(site.rglob("*")) if path.is_file()}, target)


def write_zip(files: Mapping[str, Path], target: Path) -> None:
    """Write files, by their names in the archive, as a .zip compressed with LZMA."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as archive:
        for name, path in files.items():
            archive.write(path, name)


def _target() -> list[str]:
    """Return pip's options for wheels of the GPU machine's Python."""
    options = [
        "--quiet", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp",
        "--abi", "cp" + PYTHON.replace(".", ""), "--abi", "abi3", "--abi", "none",
    ]  # fmt: skip
    tags = [*(f"manylinux_2_{minor}_x86_64" for minor in MANYLINUX), "manylinux2014_x86_64", "manylinux1_x86_64"]
    return [*options, *(word for tag in tags for word in ("--platform", tag))]


def _pip(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pip {arguments[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
