from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpupipe.backends.machine import cpu_quota, memory, n_threads
from gpupipe.errors import ConfigError
from gpupipe.units import GIB


class FakeMachine:
    """A /proc and a /sys/fs/cgroup in a folder."""

    def __init__(self, folder: Path) -> None:
        self.cgroups, self.proc = folder / "cgroup", folder / "proc"

    def write(self, file: str, text: str) -> None:
        path = self.cgroups.parent / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def quota(self) -> float | None:
        return cpu_quota(self.cgroups, self.proc)

    def memory(self) -> tuple[int, int, int]:
        figures = memory(self.cgroups, self.proc)
        return figures.total, figures.available, figures.peak


@pytest.fixture
def fake(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path)


def test_without_cgroups_nothing_is_limited(fake: FakeMachine) -> None:
    assert fake.quota() is None
    assert fake.memory()[0] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_v2_quota_is_read_in_cores(fake: FakeMachine) -> None:
    fake.write("proc/self/cgroup", "0::/")
    fake.write("cgroup/cpu.max", "150000 100000")
    assert fake.quota() == 1.5


def test_a_v2_quota_of_max_means_unlimited(fake: FakeMachine) -> None:
    fake.write("proc/self/cgroup", "0::/")
    fake.write("cgroup/cpu.max", "max 100000")
    assert fake.quota() is None


def test_the_tightest_quota_of_all_levels_counts(fake: FakeMachine) -> None:
    fake.write("proc/self/cgroup", "0::/slice/job")
    fake.write("cgroup/slice/cpu.max", "200000 100000")
    fake.write("cgroup/slice/job/cpu.max", "800000 100000")
    assert fake.quota() == 2.0


def test_a_v1_quota_is_read_in_cores(fake: FakeMachine) -> None:
    fake.write("proc/self/cgroup", "4:memory:/\n2:cpu,cpuacct:/job\n1:name=systemd:/")
    fake.write("cgroup/cpu/job/cpu.cfs_quota_us", "50000")
    fake.write("cgroup/cpu/job/cpu.cfs_period_us", "100000")
    assert fake.quota() == 0.5


def test_a_v1_quota_of_minus_one_means_unlimited(fake: FakeMachine) -> None:
    fake.write("proc/self/cgroup", "2:cpu:/")
    fake.write("cgroup/cpu/cpu.cfs_quota_us", "-1")
    fake.write("cgroup/cpu/cpu.cfs_period_us", "100000")
    assert fake.quota() is None


def test_a_v1_path_of_the_host_falls_back_to_the_path_in_the_container(fake: FakeMachine) -> None:
    fake.write("proc/self/cgroup", "2:cpu:/docker/8790e96949e6")
    fake.write("cgroup/cpu/cpu.cfs_quota_us", "300000")
    fake.write("cgroup/cpu/cpu.cfs_period_us", "100000")
    assert fake.quota() == 3.0


def test_a_v2_memory_limit_replaces_the_machines_figures(fake: FakeMachine) -> None:
    fake.write("proc/self/cgroup", "0::/job")
    fake.write("cgroup/job/memory.max", str(GIB // 4))
    fake.write("cgroup/job/memory.current", str(GIB // 8))
    fake.write("cgroup/job/memory.stat", f"anon 1\ninactive_file {GIB // 16}")
    assert fake.memory()[:2] == (GIB // 4, GIB // 4 - GIB // 8 + GIB // 16)


def test_a_v1_memory_limit_replaces_the_machines_figures(fake: FakeMachine) -> None:
    fake.write("proc/self/cgroup", "4:memory:/job")
    fake.write("cgroup/memory/job/memory.limit_in_bytes", str(GIB // 4))
    fake.write("cgroup/memory/job/memory.usage_in_bytes", str(GIB // 8))
    assert fake.memory()[:2] == (GIB // 4, GIB // 8)


@pytest.mark.parametrize("limit", ["max", "9223372036854771712"])
def test_an_unlimited_cgroup_leaves_the_machines_figures(fake: FakeMachine, limit: str) -> None:
    fake.write("proc/self/cgroup", "0::/")
    fake.write("cgroup/memory.max", limit)
    fake.write("proc/meminfo", "MemTotal:  999999 kB\nMemAvailable:     4096 kB")
    total, available, _ = fake.memory()
    assert total == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert available == 4 * 2**20


def test_use_above_the_limit_leaves_nothing_available(fake: FakeMachine) -> None:
    fake.write("proc/self/cgroup", "0::/")
    fake.write("cgroup/memory.max", "1000")
    fake.write("cgroup/memory.current", "2000")
    assert fake.memory()[1] == 0


def test_the_peak_is_the_processes_own(fake: FakeMachine) -> None:
    fake.write("proc/self/status", "Name:\tpython\nVmHWM:\t    2048 kB\nVmRSS:\t 100 kB")
    assert fake.memory()[2] == 2 * 2**20


def test_the_name_of_a_process_may_be_any_bytes(fake: FakeMachine) -> None:
    fake.write("proc/self/status", "")
    (fake.proc / "self" / "status").write_bytes(b"Name:\tpyth\xf6n\nVmHWM:\t    2048 kB\n")
    assert fake.memory()[2] == 2 * 2**20


def test_the_peak_belongs_to_this_process_and_not_to_its_parent() -> None:
    code = "from gpupipe.backends.machine import peak_bytes; print(peak_bytes())"
    ballast = b"x" * (300 * 2**20)
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(child.stdout) < len(ballast)


def test_this_machines_figures_are_consistent() -> None:
    figures = memory()
    assert 0 < figures.available <= figures.total
    assert 2**20 < figures.peak < figures.total


def test_affinity_bounds_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUPIPE_THREADS", raising=False)
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this platform has no affinity")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5})
    assert n_threads() == 1


def test_a_quota_rounds_up_to_whole_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUPIPE_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for quota, threads in [(0.5, 1), (1.5, 2), (3.0, 3), (64.0, 8), (None, 8)]:
        monkeypatch.setattr("gpupipe.backends.machine.cpu_quota", lambda quota=quota: quota)
        assert n_threads() == threads


def test_the_environment_overrides_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPIPE_THREADS", "7")
    assert n_threads() == 7


@pytest.mark.parametrize("value", ["0", "-2", "many", "1.5"])
def test_an_invalid_thread_count_is_an_error(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("GPUPIPE_THREADS", value)
    with pytest.raises(ConfigError, match=r"expected a whole number above 0 in GPUPIPE_THREADS"):
        n_threads()
