"""Checks of the installed wheels: complete, one CUDA version, one RAPIDS release, compatible versions."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, cast

from gpupipe.backends.probe import RAPIDS as NEEDED_FROM_RAPIDS
from gpupipe.backends.probe import GpuProbe, missing_packages, missing_packages_reason
from gpupipe.doctor.distributions import (
    GPU_DISTRIBUTIONS,
    OWN,
    Distributions,
    install_extra,
    install_required,
    normalise_name,
    replace_all,
    suitable_major,
)
from gpupipe.doctor.finding import Finding, Level
from gpupipe.doctor.processes import evaluate_in_child
from gpupipe.entry_points import KINDS, installed_plugins

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.version import Version

CHECK = "plug-ins"

RAPIDS = ("cudf", "cuml", "rmm", "dask_cuda", "dask_cudf")


def package_findings(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """Return the problems of the installed wheels, or one "ok" finding."""
    findings = [*_unreadable(installed), *_mixed_cuda(installed, gpu), *_several(installed, gpu), *_releases(installed)]
    return [*([*findings, *_incomplete(installed, gpu)] or [_whole(installed, gpu)]), *_without_rapids(installed, gpu)]


def _whole(installed: Distributions, gpu: GpuProbe) -> Finding:
    if not installed.has_gpu_packages():
        needed = "; without a GPU, none is required" if gpu.obstacle == "no_driver" else ""
        return Finding("ok", "GPU packages", f"none installed{needed}")
    majors = " and ".join(f"CUDA {major}" for major in installed.cuda_majors())
    return Finding("ok", "GPU packages", f"one release, built for {majors or 'the CUDA of this environment'}")


def _unreadable(installed: Distributions) -> list[Finding]:
    fix = "delete that folder and reinstall its package: pip install --force-reinstall NAME"
    return [
        Finding("warning", "metadata", f"{folder}: name or version of the package is missing", fix)
        for folder in installed.unreadable
    ]


def _mixed_cuda(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    majors = installed.cuda_majors()
    if len(majors) < 2:
        return []
    parts = (f"CUDA {major}: {', '.join(names)}" for major, names in sorted(majors.items()))
    everything = sorted(chain.from_iterable(majors.values()))
    fix = replace_all(everything, install_extra(suitable_major(gpu, installed)))
    found = f"expected wheels for one CUDA version, found several that install the same modules: {'; '.join(parts)}"
    return [Finding("error", "cu12 and cu13 wheels", found, fix)]


def _several(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """Find distributions that overwrite each other: several of CuPy, several of XGBoost."""
    major = suitable_major(gpu, installed)
    findings = []
    # The name of XGBoost's distribution for a CUDA version depends on its release. If gpupipe's metadata is missing,
    # the fix installs the whole extra.
    wanted = (("cupy", "CuPy", f"cupy-cuda{major}x"), ("xgboost", "XGBoost", f"{OWN}[cuda{major}]"))
    for module, title, otherwise in wanted:
        names = installed.of(module)
        if len(names) > 1:
            fix = replace_all(names, install_required(installed, major, module, otherwise))
            found = f"expected one, found {len(names)} that overwrite each other's files: {', '.join(names)}"
            findings.append(Finding("error", f"{title} wheels", found, fix))
    return findings


def _releases(installed: Distributions) -> list[Finding]:
    """Find a mix of RAPIDS releases: packages work only with those of the same release (year and month)."""
    releases = {name: _release(installed.versions[name]) for name in chain.from_iterable(map(installed.of, RAPIDS))}
    if len(set(releases.values())) < 2:
        return []
    found = ", ".join(f"{name} {installed.versions[name]}" for name in releases)
    year, month = max(releases.values())
    wanted = " ".join(f"'{name}=={year}.{month}.*'" for name in releases)
    return [Finding("error", "RAPIDS release", f"expected one release, found {found}", f"pip install {wanted}")]


def _release(version: str) -> tuple[int, int]:
    year, month = (f"{version}.0".split("."))[:2]
    return int(year) if year.isdecimal() else 0, int(month) if month.isdecimal() else 0


def _incomplete(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """Find missing GPU packages on a machine with a usable GPU."""
    missing = missing_packages() if gpu.usable else ()
    if not missing:
        return []
    major = suitable_major(gpu, installed)
    fix = f"{install_extra(major)}, or '{OWN}[cuda{major}-lite]' without RAPIDS"
    return [Finding("error", "GPU packages", missing_packages_reason(missing), fix)]


def _without_rapids(installed: Distributions, gpu: GpuProbe) -> list[Finding]:
    """Report what runs on the CPU because packages of RAPIDS are missing; an error only if some of them are there."""
    missing = missing_packages(NEEDED_FROM_RAPIDS) if gpu.usable and not missing_packages() else ()
    if not missing:
        return []
    if len(missing) < len(NEEDED_FROM_RAPIDS):
        fix = install_extra(suitable_major(gpu, installed))
        return [Finding("error", "RAPIDS", missing_packages_reason(missing), fix)]
    found = "not installed: files are read on the CPU, and models of cuML train there; XGBoost and networks need none"
    return [Finding("ok", "RAPIDS", found)]


# numba-cuda up to 0.30 uses np.row_stack, which NumPy 2.5 removed; its own metadata allows the pair. Runs add the name
# back (`gpupipe_kernels.numpy_compat`); a user's own `import cudf` fails.
NUMPY_WITHOUT_ROW_STACK, NUMBA_CUDA_WITH_IT = "2.5", "0.31"


def version_findings(installed: Distributions) -> list[Finding]:
    """Return a finding for each version out of the required range, or one if the requirements cannot be read."""
    if find_spec("packaging") is None:
        return [Finding("error", "versions", "not checked: packaging is not installed", "pip install packaging")]
    if OWN not in installed.versions:
        found = f"not checked: {OWN} runs from a source tree without installed metadata"
        return [Finding("warning", "versions", found, "pip install -e ."), *_row_stack(installed), *_caps(installed)]
    return [*_core(installed), *_windows(installed), *_row_stack(installed), *_caps(installed)]


def _core(installed: Distributions) -> Iterator[Finding]:
    """Check the packages that every run requires, on the CPU too."""
    for requirement in installed.asked(OWN):
        name = normalise_name(requirement.name)
        if name not in installed.versions:
            yield Finding("error", name, f"not installed; {OWN} requires it", _install(requirement))
        elif not _allows(requirement, installed.versions[name]):
            yield _outside(installed, requirement, OWN)


def _windows(installed: Distributions) -> Iterator[Finding]:
    """Check installed packages against the extras; the GPU extras only if GPU packages are installed."""
    reported = set()
    for extra in ("cuda13", "cuda12", "torch") if installed.has_gpu_packages() else ("torch",):
        for requirement in installed.asked(OWN, extra):
            name = normalise_name(requirement.name)
            version = installed.versions.get(name)
            if version is not None and name not in reported and not _allows(requirement, version):
                reported.add(name)
                yield _outside(installed, requirement, f"{OWN}[{extra}]")


def _caps(installed: Distributions) -> Iterator[Finding]:
    """Check the GPU packages' requirements on pandas, NumPy, Numba and so on; `_releases` checks RAPIDS itself."""
    rapids = set(chain.from_iterable(GPU_DISTRIBUTIONS[module] for module in RAPIDS))
    for owner in chain.from_iterable(map(installed.of, GPU_DISTRIBUTIONS)):
        for requirement in installed.asked(owner):
            name = normalise_name(requirement.name)
            version = installed.versions.get(name)
            if version is not None and name not in rapids and not _allows(requirement, version):
                yield _outside(installed, requirement, f"{owner} {installed.versions[owner]}")


def _row_stack(installed: Distributions) -> Iterator[Finding]:
    numpy, numba_cuda = (_parsed(installed.versions.get(name, "")) for name in ("numpy", "numba-cuda"))
    if numpy is None or numba_cuda is None:
        return
    from packaging.version import Version

    if numpy >= Version(NUMPY_WITHOUT_ROW_STACK) and numba_cuda < Version(NUMBA_CUDA_WITH_IT):
        found = (
            f"numba-cuda {numba_cuda} uses numpy.row_stack, which NumPy {numpy} no longer has: `import cudf` fails in "
            "your own scripts; gpupipe restores the function and is not affected"
        )
        yield Finding("warning", "numba-cuda and NumPy", found, f"pip install 'numpy<{NUMPY_WITHOUT_ROW_STACK}'")


def _outside(installed: Distributions, requirement: Requirement, owner: str) -> Finding:
    name = normalise_name(requirement.name)
    found = f"{owner} requires {requirement.specifier}, found {installed.versions[name]}"
    return Finding("warning", name, found, _install(requirement))


def _install(requirement: Requirement) -> str:
    return f"pip install '{requirement.name}{requirement.specifier}'"


def _allows(requirement: Requirement, version: str) -> bool:
    parsed = _parsed(version)
    return parsed is None or requirement.specifier.contains(parsed, prereleases=True)


def _parsed(version: str) -> Version | None:
    """Return the version; None for a custom build whose version cannot be parsed."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(version)
    except InvalidVersion:
        return None


def plugin_findings(timeout_seconds: float) -> list[Finding]:
    """Return a finding for each installed plug-in; none without plug-ins."""
    of_groups = chain.from_iterable(installed_plugins(group).values() for group in KINDS)
    titles = [plugin.title for plugin in chain.from_iterable(of_groups)]
    if not titles:
        return []
    code = "from gpupipe.plugins.states import plugin_states"
    failure, states = evaluate_in_child(code, "plugin_states()", timeout_seconds)
    if failure:
        return [Finding("error", CHECK, f"{', '.join(titles)}; loading them failed: {failure}", "remove its package")]
    return [Finding(cast(Level, state["level"]), CHECK, state["found"], state["fix"]) for state in states or ()]
