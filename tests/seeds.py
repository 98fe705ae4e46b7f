"""The seed of the inputs that kernels are tested with: another one in each run of CI, so that it explores.

pytest prints it in its header, and a kernel that fails in its message. ``GPUPIPE_KERNEL_SEED=7 pytest ...`` repeats a
run; elsewhere than in CI it is 1.
"""

from __future__ import annotations

import os
import secrets

VARIABLE = "GPUPIPE_KERNEL_SEED"


def choose_seed() -> None:
    """Choose the seed of this run, for this process and its children."""
    os.environ.setdefault(VARIABLE, str(secrets.randbelow(2**31) if os.environ.get("CI") else 1))


def kernel_seed() -> int:
    """Return the seed of this run."""
    return int(os.environ[VARIABLE])
