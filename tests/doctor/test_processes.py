"""Expressions evaluated in child processes."""

from __future__ import annotations

from typing import Any

import pytest

from gpupipe.doctor.processes import evaluate_in_child


@pytest.mark.parametrize(
    ("statements", "expression", "found"),
    [
        (
            "import atexit; print('a library', end=''); atexit.register(print, '[3]')",
            "[True, None]",
            ("", [True, None]),
        ),
        ("import os; os._exit(0)", "1", ("ended without a result", None)),
        (
            "import os; os.kill(os.getpid(), 9)",
            "1",
            ("was killed (SIGKILL), probably for lack of memory: no error output", None),
        ),
    ],
    ids=["printing", "exit", "killed"],
)
def test_a_value_is_found_among_other_output(statements: str, expression: str, found: tuple[str, Any]) -> None:
    assert evaluate_in_child(statements, expression, 60) == found
