"""The tables and configurations of the tests of ``gpupipe bench``."""

from __future__ import annotations

from tests.bench.conftest import binary, frame, regression

__all__ = ["binary", "frame", "regression"]
