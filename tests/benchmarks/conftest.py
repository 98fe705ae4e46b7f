"""Tables and configurations shared with the tests of ``gpupipe bench``."""

from __future__ import annotations

from tests.bench.conftest import binary, frame, regression

__all__ = ["binary", "frame", "regression"]
