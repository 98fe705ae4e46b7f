"""Fuzzer of the command line with damaged inputs: ``python -m tools.fuzz --cases 10000 --seed 1``.

Prints the exit codes and failures of each kind, and saves failing cases, minimized, in ``--keep``. The exit code is 1
if a case failed. ``--seed`` and ``--first`` determine the cases.
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
    os.environ |= QUIET_AND_ALIKE  # before any compute library is loaded
    from tools.fuzz.command import fuzz

    sys.exit(fuzz())
