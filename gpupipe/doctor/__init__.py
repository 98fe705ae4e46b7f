"""Diagnosis of a machine: why the GPU is not used, as findings with fixes, in the order in which to apply them.

Works on machines where everything is broken: compute libraries are imported only in child processes, because an import
can abort, and unreadable metadata is a finding like any other.
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
from gpupipe.doctor.packages import package_findings, plugin_findings, version_findings
from gpupipe.doctor.toolkits import kernel_findings, library_findings
from gpupipe.errors import ConfigError, DeviceError

__all__ = ["Finding", "Level", "diagnose", "exit_code"]

SECONDS_TO_IMPORT = 120.0  # cuML takes 15 s with cold caches; a library that hangs never returns


def diagnose(timeout_seconds: float = SECONDS_TO_IMPORT) -> list[Finding]:
    """Return the findings on this machine; never raises.

    `timeout_seconds` limits each import; a library that exceeds it is reported as a finding.
    """
    installed = read_distributions()
    gpus = probe_gpus()
    around = read_host_environment()
    return [
        *driver_findings(gpus[0], around, installed),
        *gpu_findings(gpus),
        *cuda_findings(gpus[0], timeout_seconds),
        *package_findings(installed, gpus[0]),
        *version_findings(installed),
        *kernel_findings(installed, gpus[0]),
        *library_findings(installed, gpus[0], timeout_seconds),
        *import_findings(installed, gpus[0], timeout_seconds),
        *cpu_findings(timeout_seconds),
        *plugin_findings(timeout_seconds),
        *_auto(gpus[0], installed),
    ]


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 4 if any finding is an error, else 0; a missing GPU is not an error."""
    return DeviceError.exit_code if any(finding.level == "error" for finding in findings) else 0


def _auto(gpu: GpuProbe, installed: Distributions) -> list[Finding]:
    """Report the device that ``--device auto`` selects."""
    try:
        obstacle = device_report().gpu_obstacle
    except ConfigError:  # invalid GPUPIPE_THREADS: the "threads" finding reports it
        return []
    if not obstacle:
        return [Finding("ok", "--device auto", f"selects the GPU: {gpu.reason}")]
    return [Finding("warning" if gpu.usable else "ok", "--device auto", f"selects the CPU: {obstacle}")]
