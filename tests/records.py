"""Records of test runs: what passed, and how long it took.

``--record FILE`` writes one, and lists each test that takes more than 2 s. ``--without-passed FILE`` runs what did not
pass in a recorded run of another environment, and counts what did in its summary. It does not import files of which all
tests passed, so which cases a test has must not depend on installed libraries: skip cases, do not omit them.

``python -m tests.records FILE...`` writes budgets.json: the seconds that tests over 2 s may take, from records of quiet
machines.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import pytest

SLOW_SECONDS = 2.0
NOISE = 1.5  # times the recorded seconds are the budget: machines also do something else
BUDGETS = Path(__file__).with_name("budgets.json")


def file_of(name: str) -> str:
    """Return the file of a test."""
    return name.partition("::")[0]


class Recorder:
    """Plug-in that records the reports of a run: of all processes, in the one that started them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.passed: set[str] = set()
        self.others: set[str] = set()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.others.add(report.nodeid)
        elif report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.others.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        record = {
            "passed": sorted(self.passed - self.others),
            "finished": sorted({file_of(name) for name in self.passed} - {file_of(name) for name in self.others}),
            "seconds": self.seconds,
        }
        self.path.write_text(json.dumps(record), encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the tests that take more than 2 s, with their budgets."""
        budgets: dict[str, float] = json.loads(BUDGETS.read_text(encoding="utf-8"))
        slow = {name: seconds for name, seconds in self.seconds.items() if seconds > SLOW_SECONDS}
        total = f"{sum(slow.values()):.0f} of {sum(self.seconds.values()):.0f} s"
        terminalreporter.write_sep("-", f"{len(slow)} tests take more than {SLOW_SECONDS:g} s, {total}")
        for name, seconds in sorted(slow.items(), key=lambda each: -each[1]):
            budget = budgets.get(name, SLOW_SECONDS)
            words = f"over its budget of {budget:.1f} s" if seconds > budget else f"budget {budget:.1f} s"
            terminalreporter.write_line(f"{seconds:6.1f} s  {name}: {words}")


class WithoutPassed:
    """Plug-in that runs only what did not pass in a recorded run."""

    def __init__(self, path: Path) -> None:
        record = json.loads(path.read_text(encoding="utf-8"))
        self.passed, self.finished = set(record["passed"]), set(record["finished"])

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        return True if collection_path.relative_to(config.rootpath).as_posix() in self.finished else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.passed]

    def pytest_report_header(self) -> str:
        return f"not run again, but counted: {len(self.passed):,} tests that passed in the environment of the record"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reports = [pytest.TestReport(name, ("", None, ""), {}, "passed", None, "call") for name in self.passed]
        terminalreporter.stats.setdefault("passed", []).extend(reports)


def write_budgets(records: list[str]) -> None:
    """Write the budgets of the tests that took more than 2 s in recorded runs."""
    seconds: dict[str, float] = {}
    for path in records:
        seconds |= json.loads(Path(path).read_text(encoding="utf-8"))["seconds"]
    budgets = {name: round(NOISE * time, 1) for name, time in sorted(seconds.items()) if time > SLOW_SECONDS}
    BUDGETS.write_text(json.dumps(budgets, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_budgets(sys.argv[1:])
