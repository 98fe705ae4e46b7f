"""Child processes, with wall and CPU time measured from outside."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupipe import errors
from gpupipe.children import child_environment, python_command, script_command, script_environment
from gpupipe.errors import ConfigError, GpupipeError
from gpupipe.report.text import last_lines


@dataclass(frozen=True)
class FinishedProcess:
    """A process that succeeded.

    - `document`: the JSON document that it wrote.
    - `seconds`, `cpu_seconds`: wall seconds from start to end, imports included, and CPU seconds of all its threads and
      children.
    """

    document: Any
    seconds: float
    cpu_seconds: float


def run_child(arguments: Sequence[str], output: Path, module: str = "gpupipe.bench.child") -> FinishedProcess:
    """Run ``python -m MODULE ARGUMENTS --json OUTPUT`` and return the document that it wrote.

    Raise the error of the child, with the same class.
    """
    command = python_command("-m", module, *arguments, "--json", str(output))
    code, stderr, seconds, cpu_seconds = _timed(command, child_environment())
    document = json.loads(output.read_text(encoding="utf8")) if output.exists() else {}
    if error := document.get("error"):
        raise getattr(errors, error["class"])(error["what"], where=error["where"], fix=error["fix"])
    if code != 0 or not document:
        raise GpupipeError(f"a measured process ended with exit code {code}:\n{stderr}", where=" ".join(command))
    return FinishedProcess(document, seconds, cpu_seconds)


def run_peer(script: Path, arguments: Sequence[str], output: Path) -> FinishedProcess:
    """Run a peer script with this Python and return the document that it wrote to `output`.

    Raise ConfigError if it fails, or writes no JSON.
    """
    command = script_command(script, *arguments, "--json", str(output))
    code, stderr, seconds, cpu_seconds = _timed(command, script_environment())
    if code != 0:
        raise ConfigError(
            f"the peer {script.name} ended with exit code {code}:\n{stderr}",
            where=" ".join(command),
            fix="fix the script",
        )
    try:
        document = json.loads(output.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the peer {script.name} wrote no valid JSON: {error}", where=" ".join(command), fix="fix the script"
        ) from None
    return FinishedProcess(document, seconds, cpu_seconds)


def _timed(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str, float, float]:
    """Return the exit code, the end of stderr, and the wall and CPU seconds."""
    before, start = _children_cpu_seconds(), time.perf_counter()
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, errors="replace", check=False)
    seconds = time.perf_counter() - start
    return done.returncode, last_lines(done.stderr), seconds, _children_cpu_seconds() - before


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
