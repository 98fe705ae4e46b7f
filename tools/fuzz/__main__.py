"""Damaged inputs against the promises of the command line: ``python -m tools.fuzz --cases 10000 --seed 1``.

Prints for each kind how the cases ended and what was wrong; a failing case is kept, made small, in ``--keep``. The exit
code is 1 where something was wrong. ``--seed`` and ``--first`` say which cases: the same ones each time.
"""

from __future__ import annotations

import os
import sys

QUIET_AND_ALIKE = {
    "CHURN_FILE": "absent",
    "GPUPIPE_DATA": "absent",
    "GPUPIPE_FORCE_CPU": "1",
    "GPUPIPE_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
    "PYTHONWARNINGS": "default",
}

if __name__ == "__main__":
    os.environ |= QUIET_AND_ALIKE  # before any library that computes is loaded
    from tools.fuzz.command import fuzz

    sys.exit(fuzz())
