"""Why the GPU is not used, and what to do about it: every finding with its fix.

Written for machines where everything is broken: no library that computes is imported into this process (each is tried
in a process of its own, for an import may abort), and metadata that cannot be read is a finding like any other.
"""

from __future__ import annotations

from gpupipe.doctor.diagnosis import diagnose, exit_code
from gpupipe.doctor.finding import Finding, Level

__all__ = ["Finding", "Level", "diagnose", "exit_code"]
