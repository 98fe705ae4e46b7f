"""The wheels: complete, of one CUDA, of one release, and one of each module."""

from __future__ import annotations

from gpupipe.backends.probe import GpuProbe, missing_packages, missing_packages_reason
from gpupipe.doctor.distributions import OWN, Distributions
from gpupipe.doctor.extras import install_asked, install_extra, replace_all, suitable_major
from gpupipe.doctor.finding import Finding

RAPIDS = ("cudf", "cuml", "rmm", "dask_cuda", "dask_cudf")


def package_findings(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """Return what is wrong with the set of installed wheels, or that nothing is."""
    findings = [*_unreadable(installed), *_mixed_cuda(installed, gpu), *_several(installed, gpu), *_releases(installed)]
    return [*findings, *_incomplete(installed, gpu)] or [_whole(installed, gpu)]


def _whole(installed: Distributions, gpu: GpuProbe) -> Finding:
    if not installed.has_gpu_packages():
        needed = ", and without a GPU none is needed" if gpu.obstacle == "no_driver" else ""
        return Finding("ok", "GPU packages", f"none is installed{needed}")
    majors = " and ".join(f"CUDA {major}" for major in installed.cuda_majors())
    return Finding("ok", "GPU packages", f"of one release, for {majors or 'the CUDA of this environment'}")


def _unreadable(installed: Distributions) -> list[Finding]:
    fix = "remove that folder, and install its package again: pip install --force-reinstall NAME"
    return [
        Finding("warning", "metadata", f"{folder} cannot be read: its package has no name or version", fix)
        for folder in installed.unreadable
    ]


def _mixed_cuda(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    majors = installed.cuda_majors()
    if len(majors) < 2:
        return []
    parts = (f"CUDA {major}: {', '.join(names)}" for major, names in sorted(majors.items()))
    everything = sorted(name for names in majors.values() for name in names)
    fix = replace_all(everything, install_extra(suitable_major(gpu, installed)))
    found = f"wheels of several CUDA versions, which install the same modules: {'; '.join(parts)}"
    return [Finding("error", "cu12 and cu13 wheels", found, fix)]


def _several(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """Distributions that overwrite each other: several CuPy, several XGBoost."""
    major = suitable_major(gpu, installed)
    findings = []
    # Without the metadata of gpupipe, XGBoost's distribution for a CUDA depends on its release: take the whole extra.
    wanted = (("cupy", "CuPy", f"cupy-cuda{major}x"), ("xgboost", "XGBoost", f"{OWN}[cuda{major}]"))
    for module, title, otherwise in wanted:
        names = installed.of(module)
        if len(names) > 1:
            fix = replace_all(names, install_asked(installed, major, module, otherwise))
            found = f"several, which overwrite each other's files: {', '.join(names)}"
            findings.append(Finding("error", f"{title} wheels", found, fix))
    return findings


def _releases(installed: Distributions) -> list[Finding]:
    """RAPIDS packages fit those of their own release (year and month) only."""
    releases = {name: _release(installed.versions[name]) for module in RAPIDS for name in installed.of(module)}
    if len(set(releases.values())) < 2:
        return []
    found = ", ".join(f"{name} {installed.versions[name]}" for name in releases)
    year, month = max(releases.values())
    wanted = " ".join(f"'{name}=={year}.{month}.*'" for name in releases)
    return [Finding("error", "RAPIDS release", f"packages of several releases: {found}", f"pip install {wanted}")]


def _release(version: str) -> tuple[int, int]:
    year, month = (f"{version}.0".split("."))[:2]
    return int(year) if year.isdecimal() else 0, int(month) if month.isdecimal() else 0


def _incomplete(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """A GPU without its packages is one that no run uses; packages without a GPU harm nobody."""
    missing = missing_packages() if gpu.usable else ()
    if not missing:
        return []
    fix = install_extra(suitable_major(gpu, installed))
    return [Finding("error", "GPU packages", missing_packages_reason(missing), fix)]
