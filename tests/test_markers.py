"""The lists of slow tests, of cluster tests and of those of the night: every listed test and guarded file exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.markers import CLUSTER, SLOW
from tests.nightly import ALWAYS, NIGHTLY

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", [*SLOW, *CLUSTER])
def test_a_listed_test_exists(name: str) -> None:
    path, _, function = name.partition("::")
    assert (ROOT / path).exists()
    assert not function or f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")


def test_a_guarded_file_exists() -> None:
    for name in [*ALWAYS, *NIGHTLY, *(path for paths in NIGHTLY.values() for path in paths)]:
        assert (ROOT / name).exists(), name
