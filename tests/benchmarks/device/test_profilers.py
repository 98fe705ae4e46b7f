"""Steps under NVIDIA's tools, with stand-ins for the tools."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.device import processes, profilers

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def row(launch: int, kernel: str, metric: str, unit: str, value: str) -> str:
    where = f'"{launch}","7","python3","host","{kernel}","1","7","(128, 1, 1)","(9, 1, 1)","0","9.0"'
    return f'{where},"Command line profiler metrics","{metric}","{unit}","{value}"'


SAID = [
    "==PROF== Connected to process 7",
    HEADER,
    row(0, "interpret_columns", profilers.DURATION, "ns", "2,500,000"),
    row(0, "interpret_columns", profilers.INSTRUCTIONS, "inst", "1,000"),
    row(0, "interpret_columns", profilers.DRAM, "%", "71.25"),
    row(0, "interpret_columns", profilers.IPC, "inst/cycle", "n/a"),
    row(1, "interpret_columns", profilers.INSTRUCTIONS, "inst", "10"),  # on few rows
    row(2, "interpret_rows", profilers.INSTRUCTIONS, "inst", "500"),
]


def test_of_several_launches_of_a_kernel_the_largest_counts() -> None:
    found = profilers.counters_of(SAID)
    assert found["interpret_columns"] == {
        profilers.DURATION: 2_500_000.0, profilers.INSTRUCTIONS: 1_000.0, profilers.DRAM: 71.25
    }  # fmt: skip
    assert found["interpret_rows"] == {profilers.INSTRUCTIONS: 500.0}
    line = profilers._counters_line("interpret_columns", found["interpret_columns"])
    assert line.startswith("interpret_columns: 2.50 ms, DRAM at 71% of its peak, nan instructions per cycle")


def tool(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\narguments = sys.argv[1:]\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that comes first on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_counters_are_read_at_the_clocks_that_the_gpu_has(tools: Path) -> None:
    tool(tools, "ncu", f"json.dump(arguments, open({str(tools / 'arguments')!r}, 'w'))\nprint({chr(10).join(SAID)!r})")
    document = profilers.count(lambda found: None)
    arguments = json.loads((tools / "arguments").read_text())
    assert arguments[arguments.index("--clock-control") + 1] == "none"
    assert "launch_each(20000000)" in arguments[-1]
    assert list(document["counters"]) == ["interpret_columns", "interpret_rows"]
    assert (document["failed"], len(document["lines"])) == ([], 2)


def test_counters_that_cannot_be_read_are_a_failure_with_the_tools_words(tools: Path) -> None:
    tool(tools, "ncu", "print('==ERROR== no permission'); sys.exit(1)")
    document = profilers.count(lambda found: None)
    assert document["failed"] == ["ncu ended with exit code 1"]
    assert "no permission" in document["output"]


def test_both_sanitizers_run_and_their_findings_are_kept_as_they_appear(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = """
name = arguments[arguments.index("--tool") + 1]
print("========= COMPUTE-SANITIZER", "haversine ok", sep="\\n")
print("========= ERROR SUMMARY: 0 errors" if name == "memcheck" else "========= RACECHECK SUMMARY: 2 hazards displayed")
sys.exit(0 if name == "memcheck" else int(arguments[arguments.index("--error-exitcode") + 1]))
"""
    tool(tools, "compute-sanitizer", script)
    saved: list[Any] = []
    document = profilers.sanitize(lambda found: saved.append(json.loads(json.dumps(found))))
    assert document["lines"] == [
        "memcheck: 1 kernels, ERROR SUMMARY: 0 errors", "racecheck: 1 kernels, RACECHECK SUMMARY: 2 hazards displayed"
    ]  # fmt: skip
    assert document["failed"] == ["racecheck ended with exit code 9: "]
    assert len(saved) == 6 and saved[0]["lines"][1] == "racecheck: 0 kernels, not finished"


def test_every_kernel_runs_in_the_simulator_as_under_the_sanitizers() -> None:
    code = (
        "from benchmarks.device import profilers\nfrom gpupipe_kernels import catalog\n"
        "kernels = catalog.kernels()\ncatalog.kernels = lambda: {'haversine': kernels['haversine']}\n"
        "profilers.SANITIZED_ROWS = 40\nprofilers.run_kernels()"
    )
    lines: list[str] = []
    assert processes.stream_python("-c", code, on_line=lines.append, under=("env", "NUMBA_ENABLE_CUDASIM=1")) == (0, "")
    assert lines == ["haversine ok"]
