"""Severities of a change, and the PSI from which each applies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

Severity = Literal["none", "low", "moderate", "high"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)

# The J-divergence of two normal distributions that are d standard deviations apart is d**2: 0.04 is a small and 0.25 a
# medium effect (d = 0.2 and 0.5: Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988). 0.10 and 0.25
# are the limits in use for the PSI (Siddiqi, "Credit Risk Scorecards", 2006).
LEAST_PSI: dict[Severity, float] = {"low": 0.04, "moderate": 0.10, "high": 0.25}


def severity_of(psi: float) -> Severity:
    """Return the severity of a significant change with this PSI."""
    found: Severity = "none"
    for severity, least in LEAST_PSI.items():
        if psi >= least:
            found = severity
    return found


def worst(severities: Iterable[Severity]) -> Severity:
    """Return the worst of some severities; ``"none"`` without any."""
    return max(severities, key=SEVERITIES.index, default="none")
