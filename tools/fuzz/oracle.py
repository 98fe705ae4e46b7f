"""Promises for every input: a documented exit code, one screen, no traceback, no hang, no debris."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection

from tools.fuzz.forked_child import ESCAPED, ForkOutcome

LINES = 40
COLUMNS = 160
TITLES = ("Configuration error", "Does not fit", "Data error", "Schema error", "Model error", "Usage:", "Error:")
UNEQUAL = "not as recorded"  # what `gpupipe verify` ends its account with
WARNING = re.compile(r"^\S+\.py:\d+: \w*Warning", re.MULTILINE)
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def problem_of(outcome: ForkOutcome, codes: Collection[int], debris: Collection[str] = ()) -> str:
    """Return the broken promise of an ended command, or an empty text.

    Parameters
    ----------
    outcome : ForkOutcome
    codes : collection of int
        The exit codes that are right for this input.
    debris : collection of str
        Files that it left and should not have left.
    """
    checks = (
        outcome.hung and "hang",
        outcome.code < 0 and f"killed by {_signal(outcome.code)}",
        "Traceback (most recent call last)" in outcome.stderr + outcome.stdout and f"traceback: {_end(outcome.stderr)}",
        outcome.code == ESCAPED and "an exception left main()",
        outcome.code not in codes and f"exit code {outcome.code}: {_first(outcome.stderr)}",
        (found := WARNING.search(outcome.stderr)) and f"warning: {_first(found[0])}",
        _wrong_message(outcome),
        debris and f"left behind: {', '.join(sorted(debris))}",
        outcome.judgement,
    )
    return next((str(problem) for problem in checks if problem), "")


def _wrong_message(outcome: ForkOutcome) -> str:
    if height(outcome.stderr) > LINES:
        return f"more than one screen: {height(outcome.stderr)} lines, {_first(outcome.stderr)}"
    if found := CONTROL.search(outcome.stderr):
        return f"control character {found[0]!r} in the message"
    if outcome.code and not any(title in outcome.stderr for title in TITLES) and UNEQUAL not in outcome.stdout:
        return f"exit code {outcome.code} without a word of what is wrong: {_first(outcome.stderr)}"
    return ""


def height(text: str) -> int:
    """Return the lines that `text` takes on a wide screen."""
    return sum(max(1, -(-len(line) // COLUMNS)) for line in text.splitlines())


def _signal(code: int) -> str:
    return signal.Signals(-code).name


def _first(text: str) -> str:
    return text.strip().split("\n")[0][:150]


def _end(text: str) -> str:
    return text.strip().split("\n")[-1][:150]
