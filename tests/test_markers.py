"""The lists of slow tests and of cluster tests: every listed test exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.markers import CLUSTER, SLOW

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", [*SLOW, *CLUSTER])
def test_a_listed_test_exists(name: str) -> None:
    path, _, function = name.partition("::")
    assert (ROOT / path).exists()
    assert not function or f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")
