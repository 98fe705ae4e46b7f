"""A fixture with the API of each RAPIDS release."""

from __future__ import annotations

import pytest

from tools.gpu_api.api import RELEASES, Api


@pytest.fixture(scope="session", params=RELEASES)
def api(request: pytest.FixtureRequest) -> Api:
    """The snapshot of the oldest, then of the newest release of RAPIDS that the extras allow."""
    return Api.of_release(request.param)
