"""Findings on why the GPU is not used, each with its fix, in the order in which they should be fixed.

Written for machines where everything is broken: no library that computes is imported into this process (each is tried
in a process of its own, for an import may abort), and metadata that cannot be read is a finding like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpupipe.backends import device_report
from gpupipe.backends.probe import GpuProbe, probe_gpus
from gpupipe.doctor.cpu import cpu_findings
from gpupipe.doctor.distributions import Distributions, read_distributions
from gpupipe.doctor.driver import driver_findings, read_host_environment
from gpupipe.doctor.finding import Finding, Level
from gpupipe.doctor.gpus import cuda_findings, gpu_findings
from gpupipe.doctor.imports import import_findings
from gpupipe.doctor.packages import package_findings, version_findings
from gpupipe.doctor.toolkits import compiler_findings, library_findings
from gpupipe.errors import ConfigError, DeviceError

__all__ = ["Finding", "Level", "diagnose", "exit_code"]

SECONDS_TO_IMPORT = 120.0  # cuML takes 15 s where nothing is cached; a library that hangs never ends


def diagnose(timeout_seconds: float = SECONDS_TO_IMPORT) -> list[Finding]:
    """Return what was found on this machine; never raises.

    Parameters
    ----------
    timeout_seconds : float
        How long a library may take to import before that is a finding.
    """
    installed, gpus, around = read_distributions(), probe_gpus(), read_host_environment()
    return [
        *driver_findings(gpus[0], around, installed),
        *gpu_findings(gpus, installed),
        *cuda_findings(gpus[0], timeout_seconds),
        *package_findings(installed, gpus[0]),
        *version_findings(installed),
        *library_findings(installed, gpus[0], timeout_seconds),
        *compiler_findings(installed, gpus[0]),
        *import_findings(installed, gpus[0], timeout_seconds),
        *cpu_findings(timeout_seconds),
        *_auto(gpus[0], installed),
    ]


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 4 if something is broken, else 0: a machine without a GPU is not."""
    return DeviceError.exit_code if any(finding.level == "error" for finding in findings) else 0


def _auto(gpu: GpuProbe, installed: Distributions) -> list[Finding]:
    """Say where a run would compute."""
    try:
        obstacle = device_report().gpu_obstacle
    except ConfigError:  # of GPUPIPE_THREADS, with which every run stops: said of the threads
        return []
    if not obstacle:
        return [Finding("ok", "--device auto", f"computes on the GPU: {gpu.reason}")]
    return [Finding("warning" if gpu.usable else "ok", "--device auto", f"computes on the CPU: {obstacle}")]
