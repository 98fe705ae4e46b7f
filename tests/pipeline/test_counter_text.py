"""Hardware counters as text on a terminal."""

from __future__ import annotations

import io

import pytest

from gpupipe.backends.counters.counter import HardwareCounter, HardwareSample
from gpupipe.backends.stage import Place
from gpupipe.timeline.display.console import Console
from gpupipe.timeline.display.counter_text import chart_lines, sample_line
from gpupipe.timeline.timeline import Timeline

GIB = 2**30
COUNTERS = {f"gpu{i}_memory_bytes": HardwareCounter(f"gpu{i}_memory_bytes", "B", 80.0 * GIB) for i in range(11)}


def of_gpu(i: int, **values: float) -> dict[str, float]:
    return {f"gpu{i}_{name}": value for name, value in values.items()}


def test_one_gpu_is_shown_with_its_own_values() -> None:
    values = of_gpu(0, utilization_percent=87, memory_bytes=12.4 * GIB, power_watts=412.3, temperature_celsius=64)
    values |= {"process_cpu_percent": 180.4, "process_memory_bytes": 3.1 * GIB, "gpu0_sm_clock_mhz": 1980}
    assert sample_line(values, COUNTERS) == "GPU 87 % · 12.4 GiB of 80.0 GiB · 412 W · 64 °C   CPU 180 % · 3.1 GiB"


def test_several_gpus_are_summed_up_and_missing_values_are_omitted() -> None:
    values = of_gpu(0, utilization_percent=80, memory_bytes=GIB, temperature_celsius=64)
    values |= of_gpu(10, utilization_percent=20, memory_bytes=3 * GIB, temperature_celsius=71)
    assert sample_line(values, COUNTERS) == "2 GPUs 50 % · 4.0 GiB of 160.0 GiB · 71 °C"
    assert sample_line({"process_cpu_percent": 5.0}, COUNTERS) == "CPU 5 %"
    assert sample_line({}, COUNTERS) == ""


def test_a_chart_has_a_column_for_each_of_the_last_values() -> None:
    assert chart_lines([99, 0, 1, 50, None, 100, 75], 6, 2, 100) == ["    █▄", " ▁████"]
    assert chart_lines([1.0, 2.0], 4, 1, None) == ["  ▄█"]
    assert chart_lines([1.0, 4.0], 2, 1, 2.0) == ["▂█"]  # a value above the limit is the top
    assert chart_lines([0.0, 2.0], 2, 1, 2.0, is_ascii=True) == [" #"]
    assert chart_lines([], 3, 1, None) == ["   "]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_last_values_below_the_running_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        console = Console(err=stream)
        timeline = Timeline([console])
        # A stage with a progress is drawn once more at its end.
        with console, timeline.stage("train", Place("cpu", progress=lambda: None)):
            timeline.record_sample(HardwareSample(1.0, {"process_cpu_percent": 180.0}))
            timeline.record_sample(HardwareSample(2.0, {"process_memory_bytes": 3.0 * GIB}))  # the other is kept
    assert "CPU 180 % · 3.0 GiB" in terminal.getvalue()
    assert "CPU 180" not in file.getvalue()
