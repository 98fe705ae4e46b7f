from __future__ import annotations

from dataclasses import replace

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.gpus import gpu_findings


def test_each_gpu_is_described(gpu: GpuProbe) -> None:
    found = "NVIDIA H100, compute capability 9.0, 79.0 of 80.0 GiB free"
    assert gpu_findings([gpu, gpu]) == [Finding("ok", "GPU 0", found), Finding("ok", "GPU 1", found)]


def test_a_refusal_describes_no_gpu() -> None:
    assert gpu_findings([GpuProbe(False, "no NVIDIA driver", obstacle="no_driver")]) == []


def test_a_gpu_that_no_kernel_runs_on_has_no_fix_and_breaks_nothing(gpu: GpuProbe) -> None:
    (finding,) = gpu_findings([replace(gpu, usable=False, capability=(7, 0), obstacle="old_gpu")])
    assert (finding.level, finding.fix) == ("warning", "")
    assert finding.found.endswith("too old, requires 7.5")


def test_memory_used_by_other_processes_is_a_warning(gpu: GpuProbe) -> None:
    (finding,) = gpu_findings([replace(gpu, free_bytes=10 * 2**30)])
    assert finding.level == "warning"
    assert "10.0 of 80.0 GiB free" in finding.found
    assert "nvidia-smi" in finding.fix
