"""Installed distributions, read from metadata without importing them, and pip commands that repair them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from typing import TYPE_CHECKING

from gpupipe.backends.probe import GpuProbe

if TYPE_CHECKING:
    from packaging.requirements import Requirement

# import name → distributions that may provide it; names without a suffix are conda's, or fit any CUDA
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
# NVIDIA's libraries are not listed: those of two CUDA versions use separate folders, and PyTorch installs some itself.
OF_CUDA = re.compile(r"(?!nvidia-).+-cu(?:da)?(?P<major>\d\d)x?")


@dataclass(frozen=True)
class Distributions:
    """Distributions on the import path.

    - `versions`: version by normalised name (``cudf-cu13``).
    - `requirements`: requirements of each distribution, as written in its metadata.
    - `unreadable`: metadata folders without a name or a version.
    """

    versions: dict[str, str] = field(default_factory=dict)
    requirements: dict[str, list[str]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)

    def of(self, module: str) -> list[str]:
        """Return the installed distributions that provide the GPU package `module`."""
        return [name for name in GPU_DISTRIBUTIONS[module] if name in self.versions]

    def cuda_majors(self) -> dict[int, list[str]]:
        """Return CUDA major version to the distributions built for it."""
        majors: dict[int, list[str]] = {}
        for name in sorted(self.versions):
            if match := OF_CUDA.fullmatch(name):
                majors.setdefault(int(match["major"]), []).append(name)
        return majors

    def has_gpu_packages(self) -> bool:
        """Return whether RAPIDS or CuPy is installed, that is, whether a GPU is wanted."""
        return any(self.of(module) for module in ("cudf", "cuml", "cupy", "rmm"))

    def asked(self, name: str, extra: str = "") -> Iterator[Requirement]:
        """Yield the requirements of distribution `name` or of its `extra`; none if packaging is not installed."""
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
    """Return the installed distributions; of two with one name, the first on the path counts, as for imports."""
    installed = Distributions()
    for distribution in distributions():
        try:
            name, version = normalise_name(distribution.metadata["Name"]), distribution.metadata["Version"]
            requirements = distribution.requires or []
        except Exception:  # a partly deleted folder, a wrong encoding: any error is a finding
            name, version = "", ""
        if not name or not version:
            installed.unreadable.append(_folder(distribution))
        elif name not in installed.versions:
            installed.versions[name], installed.requirements[name] = version, requirements
    return installed


def normalise_name(name: str) -> str:
    """Return a distribution's name in pip's normal form: ``cudf-cu13`` for ``Cudf_cu13``."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _folder(distribution: Distribution) -> str:
    return str(getattr(distribution, "_path", "an unnamed folder"))  # no public attribute has it


CUDA_MAJORS = (13, 12)
MIN_CUDA13 = (13, 0)


def suitable_major(gpu: GpuProbe, installed: Distributions) -> int:
    """Return the CUDA major version to install, 12 or 13: that of the GPU, else that of most installed wheels."""
    if gpu.count:
        return 13 if gpu.cuda >= MIN_CUDA13 else 12
    majors = installed.cuda_majors()
    return max(CUDA_MAJORS, key=lambda major: (len(majors.get(major, [])), major))


def install_extra(major: int) -> str:
    """Return the command that installs gpupipe's extra for CUDA `major`, with RAPIDS."""
    return f"pip install '{OWN}[cuda{major}]'"


def install_required(installed: Distributions, major: int, module: str, otherwise: str) -> str:
    """Return the command that installs the distribution of `module` that the extra requires, or `otherwise`."""
    for requirement in installed.asked(OWN, f"cuda{major}"):
        if normalise_name(requirement.name) in GPU_DISTRIBUTIONS[module]:
            return f"pip install '{requirement.name}{requirement.specifier}'"
    return f"pip install '{otherwise}'"


def replace_all(names: list[str], install: str) -> str:
    """Return the command that uninstalls `names` and then runs `install`.

    All of them are uninstalled, even one that is wanted: wheels of the same modules overwrite each other's files, and
    removing one deletes files of the other.
    """
    return f"pip uninstall -y {' '.join(names)} && {install}"
