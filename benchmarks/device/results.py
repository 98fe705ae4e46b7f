"""Results of the steps of `benchmarks.device`, written after each step: results.json and results.md."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from gpupipe.errors import DataError
from gpupipe.files.jsonfile import dumps

Status = Literal["done", "failed", "timed out", "broken", "skipped"]

MARKS: dict[Status, str] = {
    "done": "ok",
    "failed": "FAILED",
    "timed out": "TIMED OUT",
    "broken": "BROKEN",
    "skipped": "skipped",
}


@dataclass(frozen=True)
class StepResult:
    """The result of one step.

    Attributes
    ----------
    name, title : str
    status : {"done", "failed", "timed out", "broken", "skipped"}
        failed: it finished, and a result is wrong. broken: its process ended with an error.
    seconds : float
        Wall time.
    reason : str
        Why it is not "done", as text.
    lines : list of str
        The results as text.
    figures : dict
        All measurements; for a step that timed out, those made until then.
    ended : str
        Time of its end, in UTC.
    """

    name: str
    title: str
    status: Status
    seconds: float = 0.0
    reason: str = ""
    lines: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    ended: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


def partial_path(folder: Path, name: str) -> Path:
    """Return the file of what a running step has measured so far; it remains only if the command was killed."""
    return folder / f"{name}.json"


def result_of(name: str, title: str, partial: Path, code: int | None, said: str, seconds: float) -> StepResult:
    """Return the result of a step that ended.

    Parameters
    ----------
    name, title : str
    partial : Path
        What the step saved; absent if it saved nothing.
    code : int, optional
        Its exit code; None if it was killed at its time limit.
    said : str
        The end of its output.
    seconds : float
    """
    document = json.loads(partial.read_text(encoding="utf8")) if partial.exists() else {}
    lines = document.pop("lines", [])
    failed = document.pop("failed", [])
    has_ended = document.pop("ended", False)
    status: Status = "failed" if failed else "done"
    reason = "; ".join(failed)
    if code is None:
        status, reason = "timed out", "; ".join([f"timed out after {seconds:.0f} s", *failed])
    elif not has_ended:
        status, reason = "broken", f"exit code {code}: {said}"
    return StepResult(name, title, status, seconds, reason, lines, document)


class StepResults:
    """Results in a folder, in the order of the steps; those of an earlier call are kept until a step runs again.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    order : sequence of str
        The names of all steps.

    Raises
    ------
    DataError
        If the folder contains an unrelated results.json.
    """

    def __init__(self, folder: Path, order: Sequence[str]) -> None:
        self.folder, self.order = folder, list(order)
        folder.mkdir(parents=True, exist_ok=True)
        self.results = load(folder / "results.json")

    def add(self, result: StepResult) -> None:
        """Add or replace a result, and write both files."""
        self.results[result.name] = result
        ordered = [self.results[name] for name in self.order if name in self.results]
        replace(self.folder / "results.json", dumps([asdict(one) for one in ordered], indent=2) + "\n")
        replace(self.folder / "results.md", markdown(ordered))


def load(path: Path) -> dict[str, StepResult]:
    """Return the results in a results.json by step; none if the file does not exist.

    Raises
    ------
    DataError
        If it is an unrelated file.
    """
    if not path.exists():
        return {}
    try:
        return {row["name"]: StepResult(**row) for row in json.loads(path.read_text(encoding="utf8"))}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"not a results file of this benchmark: {error}", where=str(path), fix="choose another --out"
        ) from None


@contextmanager
def attempt(title: str, document: Mapping[str, Any]) -> Iterator[None]:
    """Record an error in the list `failed` of a step's document, so that what follows still runs."""
    try:
        yield
    except Exception as error:  # from any library
        document["failed"].append(f"{title}: {type(error).__name__}: {error}")


def replace(path: Path, text: str) -> None:
    """Replace a file atomically: a killed process leaves the old content or the new."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    hidden.write_text(text, encoding="utf8")
    hidden.replace(path)


def markdown(results: Sequence[StepResult]) -> str:
    """Return the results as Markdown: a table of the steps, then the lines of each."""
    rows = [
        f"| {one.name} | {MARKS[one.status]} | {one.seconds:.0f} s | {one.ended} | {_cell(one)} |" for one in results
    ]
    table = ["| step | | time | ended (UTC) | |", "| --- | --- | --- | --- | --- |", *rows]
    parts = [part for one in results for part in _part(one)]
    return "\n".join(["# Results on a GPU", "", *table, *parts]) + "\n"


def _part(result: StepResult) -> list[str]:
    """Return the section of a step: its lines, and its complete error."""
    why = result.reason.splitlines() if result.status not in ("done", "skipped") else []
    if not result.lines and not why:
        return []
    return ["", f"## {result.title}", "", "```", *result.lines, *why, "```"]


def _cell(result: StepResult) -> str:
    """Return one line of the reason; for a traceback, the error."""
    lines = [line for line in result.reason.splitlines() if any(map(str.isalnum, line))]
    return (lines[-1] if lines else "").replace("|", "\\|")


def summary(results: Sequence[StepResult]) -> Mapping[str, int]:
    """Return the number of steps by status."""
    return {status: n for status in MARKS if (n := sum(one.status == status for one in results))}
