"""The checker's own modules can be imported here, and the API of each release is a fixture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from tools.gpu_api.api import RELEASES, Api


@pytest.fixture(scope="session", params=RELEASES)
def api(request: pytest.FixtureRequest) -> Api:
    """The snapshot of the oldest, then of the newest release of RAPIDS that the extras allow."""
    return Api.of_release(request.param)
