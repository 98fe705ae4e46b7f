"""Entry point for ``rapids doctor``, NVIDIA's diagnostic command."""

from __future__ import annotations

import warnings
from typing import Any

from gpupipe.doctor import diagnose, exit_code
from gpupipe.doctor.finding import Finding
from gpupipe.errors import DeviceError


def check(verbose: bool = False, **_: Any) -> str | None:
    """Check the driver, GPUs, wheels and imports with gpupipe's doctor.

    With `verbose`, return the findings even if there is no problem. Raise DeviceError if something is broken; the
    message lists each problem and its fix.
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
