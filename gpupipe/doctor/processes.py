"""Child processes for checks: a library may abort, hang or occupy the GPU, and doctor must still report it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping

from gpupipe.children import child_environment, python_command


def run_in_child(code: str, timeout_seconds: float, settings: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Run Python `code` in a child process with the import path of this process, without the current folder.

    `settings` are environment variables in addition to those of this process. Return the last line of the error, empty
    on success, and the standard output.
    """
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
        return f"did not finish within {timeout_seconds:g} s", ""
    except OSError as error:
        return f"cannot start a process: {error}", ""
    if done.returncode != 0:
        return _failure(done.returncode, done.stderr.decode(errors="replace")), ""
    return "", done.stdout.decode(errors="replace")


def _failure(code: int, stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    words = lines[-1] if lines else "no error output"
    if code > 0:
        return words
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"killed by {name}: {words}"
