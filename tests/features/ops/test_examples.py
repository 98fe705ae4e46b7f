"""Docstring examples of the ops."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from gpupipe.features import OPS, FeatureOp


@pytest.mark.parametrize("op", [op for _, op in OPS.items()], ids=OPS.names())
def test_each_op_has_examples_that_run(op: type[FeatureOp], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the kernel's example writes a file
    (examples,) = doctest.DocTestFinder(recurse=False, exclude_empty=False).find(op, globs={})
    found = doctest.DocTestRunner(verbose=False).run(examples, clear_globs=False)
    assert found.failed == 0
    assert {"frame", "program"} <= set(examples.globs), "the page of the op shows both"
