"""Child processes for checks: a library may abort, hang or occupy the GPU, and doctor must still report it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from gpupipe.children import child_environment, exit_error, python_command

RESULT = "\ngpupipe: "  # libraries print before and after the result


def evaluate_in_child(
    statements: str, expression: str, timeout_seconds: float, settings: Mapping[str, str] | None = None
) -> tuple[str, Any]:
    """Run Python statements in a child process with the import path of this process, without the current folder.

    `settings` are environment variables in addition to those of this process. Return the last line of the error, empty
    on success, and the value of `expression`, which must be JSON; None after an error.
    """
    code = f"{statements}\nimport json\nprint({RESULT!r} + json.dumps({expression}))"
    try:
        done = subprocess.run(
            python_command("-c", code),
            env=child_environment(settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not finish within {timeout_seconds:g} s", None
    except OSError as error:
        return f"cannot start a process: {error}", None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no error output")
        return last if done.returncode > 0 else f"{exit_error(done.returncode).how}: {last}", None
    _, is_complete, found = done.stdout.decode(errors="replace").rpartition(RESULT)
    return ("", json.loads(found.splitlines()[0])) if is_complete else ("ended without a result", None)
