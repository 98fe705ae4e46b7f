"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# As the backend does, but before anything has loaded OpenMP: idle threads that spin starve the tests on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of public tables; skip, saying why, where it is absent."""
    folder = os.environ.get("GPUPIPE_DATA", "")
    if not folder:
        pytest.skip("GPUPIPE_DATA is not set: the public tables are not at hand")
    if not Path(folder).is_dir():
        pytest.skip(f"GPUPIPE_DATA={folder} is not a folder")
    return Path(folder).resolve()
