"""Code run in a child process: a library may abort, hang or occupy the GPU, and doctor must survive to report it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping

from gpupipe.children import child_environment, python_command


def in_a_process(code: str, timeout_seconds: float, settings: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Run Python `code` with the packages that this process sees; not those of the current folder.

    Parameters
    ----------
    code : str
    timeout_seconds : float
        How long it may take.
    settings : mapping of str to str, optional
        Environment variables beside those of this process.

    Returns
    -------
    failure : str
        Why it failed, in its own last words; empty if it did not.
    output : str
        What it printed.
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
        return f"does not finish within {timeout_seconds:g} s", ""
    except OSError as error:
        return f"no process could be started: {error}", ""
    if done.returncode != 0:
        return _failure(done.returncode, done.stderr.decode(errors="replace")), ""
    return "", done.stdout.decode(errors="replace")


def _failure(code: int, stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    words = lines[-1] if lines else "without a word"
    if code > 0:
        return words
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"killed by {name}: {words}"
