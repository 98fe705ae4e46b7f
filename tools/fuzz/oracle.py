"""Requirements for every input: a documented exit code, one screen, no traceback, no hang, no leftover files."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection

from tools.fuzz.forked_child import ESCAPED, ForkOutcome

LINES = 40
COLUMNS = 160
TITLES = ("Configuration error", "Does not fit", "Data error", "Schema error", "Model error", "Usage:", "Error:")
UNEQUAL = "not as recorded"  # the last words of `gpupipe verify`
WARNING = re.compile(r"^\S+\.py:\d+: \w*Warning", re.MULTILINE)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def problem_of(outcome: ForkOutcome, codes: Collection[int], stray_files: Collection[str] = ()) -> str:
    """Return the requirement that a finished command violates, or ``""``.

    Parameters
    ----------
    outcome : ForkOutcome
    codes : collection of int
        Allowed exit codes for this input.
    stray_files : collection of str
        Unexpected and missing files.
    """
    checks = (
        outcome.hung and "hang",
        outcome.code < 0 and f"killed by {_signal(outcome.code)}",
        "Traceback (most recent call last)" in outcome.stderr + outcome.stdout and f"traceback: {_end(outcome.stderr)}",
        outcome.code == ESCAPED and "main() raised an exception",
        outcome.code not in codes and f"exit code {outcome.code}: {_first(outcome.stderr)}",
        (found := WARNING.search(outcome.stderr)) and f"warning: {_first(found[0])}",
        _wrong_message(outcome),
        stray_files and f"files: {', '.join(sorted(stray_files))}",
        outcome.verdict,
    )
    return next((str(problem) for problem in checks if problem), "")


def _wrong_message(outcome: ForkOutcome) -> str:
    if height(outcome.stderr) > LINES:
        return f"expected at most one screen, found {height(outcome.stderr)} lines: {_first(outcome.stderr)}"
    if found := CONTROL.search(outcome.stderr):
        return f"control character {found[0]!r} in the message"
    if outcome.code and not any(title in outcome.stderr for title in TITLES) and UNEQUAL not in outcome.stdout:
        return f"exit code {outcome.code} without an error message: {_first(outcome.stderr)}"
    return ""


def height(text: str) -> int:
    """Return the number of lines of `text` on a wide terminal."""
    return sum(max(1, -(-len(line) // COLUMNS)) for line in text.splitlines())


def _signal(code: int) -> str:
    return signal.Signals(-code).name


def _first(text: str) -> str:
    return text.strip().split("\n")[0][:150]


def _end(text: str) -> str:
    return text.strip().split("\n")[-1][:150]
