"""Installed distributions, from their metadata (nothing is imported), and commands that install what suits here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from typing import TYPE_CHECKING

from gpupipe.backends.probe import GpuProbe

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# import name → names of the distributions that may hold it; without a suffix: conda's, or for any CUDA
GPU_DISTRIBUTIONS = {
    "cudf": ("cudf-cu13", "cudf-cu12", "cudf"),
    "cuml": ("cuml-cu13", "cuml-cu12", "cuml"),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"),
    "rmm": ("rmm-cu13", "rmm-cu12", "rmm"),
    "numba_cuda": ("numba-cuda",),
    "dask_cuda": ("dask-cuda",),
    "dask_cudf": ("dask-cudf-cu13", "dask-cudf-cu12", "dask-cudf"),
    "xgboost": ("xgboost", "xgboost-cu13", "xgboost-cu12", "xgboost-cpu"),
    "torch": ("torch",),
}
OWN = "gpupipe"
# NVIDIA's own libraries are left out: those of two CUDA versions lie in folders of their own, and PyTorch brings some.
OF_CUDA = re.compile(r"(?!nvidia-).+-cu(?:da)?(?P<major>\d\d)x?")


@dataclass(frozen=True)
class Distributions:
    """The distributions on the import path.

    Attributes
    ----------
    versions : dict of str to str
        By normalised name (``cudf-cu13``).
    requirements : dict of str to list of str
        What each distribution asks for, as its metadata has it.
    unreadable : list of str
        Metadata folders that say neither name nor version.
    """

    versions: dict[str, str] = field(default_factory=dict)
    requirements: dict[str, list[str]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)

    def of(self, module: str) -> list[str]:
        """Return the installed distributions that hold the GPU package `module`."""
        return [name for name in GPU_DISTRIBUTIONS[module] if name in self.versions]

    def cuda_majors(self) -> dict[int, list[str]]:
        """Return the distributions that are built for one CUDA, by that."""
        majors: dict[int, list[str]] = {}
        for name in sorted(self.versions):
            if match := OF_CUDA.fullmatch(name):
                majors.setdefault(int(match["major"]), []).append(name)
        return majors

    def has_gpu_packages(self) -> bool:
        """Return whether somebody wants a GPU here: RAPIDS or CuPy is installed."""
        return any(self.of(module) for module in ("cudf", "cuml", "cupy", "rmm"))

    def asked(self, name: str, extra: str = "") -> Iterator[Requirement]:
        """Yield what distribution `name` asks for: of all, or only under its `extra`; nothing without packaging."""
        try:
            from packaging.requirements import InvalidRequirement, Requirement
        except ImportError:
            return
        for line in self.requirements.get(name, []):
            try:
                requirement = Requirement(line)
            except InvalidRequirement:
                continue
            marker = requirement.marker
            always = marker is None or marker.evaluate({"extra": ""})
            if always if not extra else not always and marker is not None and marker.evaluate({"extra": extra}):
                yield requirement


def read_distributions() -> Distributions:
    """Return what is installed; of two of a name the first on the path counts, as for imports."""
    installed = Distributions()
    for distribution in distributions():
        try:
            name, version = normalise_name(distribution.metadata["Name"]), distribution.metadata["Version"]
            requirements = distribution.requires or []
        except Exception:  # half of a folder, another encoding: whatever is wrong with it, it is a finding
            name, version = "", ""
        if not name or not version:
            installed.unreadable.append(_folder(distribution))
        elif name not in installed.versions:
            installed.versions[name], installed.requirements[name] = version, requirements
    return installed


def normalise_name(name: str) -> str:
    """Return a distribution's name as pip compares it: ``Cudf_cu13`` is ``cudf-cu13``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _folder(distribution: Distribution) -> str:
    return str(getattr(distribution, "_path", "a folder without a name"))  # public nowhere


CUDA_MAJORS = (13, 12)
MIN_CUDA13 = (13, 0)
MIN_CAPABILITY_CUDA13 = (7, 5)


def suitable_major(gpu: GpuProbe, installed: Distributions) -> int:
    """Return 12 or 13: what the GPU can, else what most wheels here are built for."""
    if gpu.count:
        return 13 if gpu.cuda >= MIN_CUDA13 and gpu.capability >= MIN_CAPABILITY_CUDA13 else 12
    majors = installed.cuda_majors()
    return max(CUDA_MAJORS, key=lambda major: (len(majors.get(major, [])), major))


def install_extra(major: int) -> str:
    """Return the command that installs everything for CUDA `major`."""
    return f"pip install '{OWN}[cuda{major}]'"


def install_asked(installed: Distributions, major: int, module: str, otherwise: str) -> str:
    """Return the command that installs the distribution of `module` that the extra asks for, or `otherwise`."""
    for requirement in installed.asked(OWN, f"cuda{major}"):
        if normalise_name(requirement.name) in GPU_DISTRIBUTIONS[module]:
            return f"pip install '{requirement.name}{requirement.specifier}'"
    return f"pip install '{otherwise}'"


def replace_all(names: list[str], install: str) -> str:
    """Return the command that removes `names` and installs anew.

    All of them, also those to be kept: wheels of the same modules overwrite each other's files, and removing one leaves
    holes in the other.
    """
    return f"pip uninstall -y {' '.join(names)} && {install}"
