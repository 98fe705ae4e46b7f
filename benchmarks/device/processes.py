"""Child processes of the steps: Python with this process's gpupipe, and output read line by line."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from gpupipe.children import child_environment, python_command
from gpupipe.report.text import last_lines

ROOT = Path(__file__).parents[2]


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the checkout and return its output."""
    return subprocess.run(
        python_command(*arguments), env=environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )


def stream_python(*arguments: str, on_line: Callable[[str], None], under: Sequence[str] = ()) -> tuple[int, str]:
    """Run Python in the checkout, `under` a tool if given, and pass on each line of its stdout as it is written.

    If a step is killed while its child runs, the results that `on_line` saved so far remain.

    Returns
    -------
    tuple of int and str
        The exit code, and the end of stderr.
    """
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        child = subprocess.Popen(
            [*under, *python_command(*arguments)],
            env=environment(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
        )
        assert child.stdout is not None
        try:
            for line in child.stdout:
                on_line(line.rstrip("\n"))
            code = child.wait()
        finally:
            child.kill()
            child.stdout.close()
            child.wait()
        errors.seek(0)
        return code, last_lines(errors.read())


def environment() -> dict[str, str]:
    """Return the environment of a child: it imports the same gpupipe, and its output is not buffered."""
    return child_environment({"PYTHONUNBUFFERED": "1"})
