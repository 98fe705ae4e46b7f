"""gpupipe as a check of ``rapids doctor``, NVIDIA's own command, which finds it by its entry point."""

from __future__ import annotations

import warnings
from typing import Any

from gpupipe.doctor import diagnose, exit_code
from gpupipe.doctor.finding import Finding
from gpupipe.errors import DeviceError


def check(verbose: bool = False, **_: Any) -> str | None:
    """Check that gpupipe finds nothing broken: driver, GPUs, wheels, imports.

    Parameters
    ----------
    verbose : bool
        Return what was found also where all is well.

    Raises
    ------
    DeviceError
        If something is broken; the message has each problem and its fix.
    """
    findings = diagnose()
    if exit_code(findings):
        raise DeviceError("\n".join(_line(finding) for finding in findings if finding.level == "error"))
    for finding in findings:
        if finding.level == "warning":
            warnings.warn(_line(finding), stacklevel=2)
    return "\n".join(map(_line, findings)) if verbose else None


def _line(finding: Finding) -> str:
    return f"{finding.check}: {finding.found}" + (f"\n  to do: {finding.fix}" if finding.fix else "")
