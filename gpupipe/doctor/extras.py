"""Which extra of gpupipe suits this machine, and the commands that install what is in it."""

from __future__ import annotations

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import GPU_DISTRIBUTIONS, OWN, Distributions, normalise_name

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
