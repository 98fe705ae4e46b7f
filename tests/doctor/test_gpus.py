from __future__ import annotations

from dataclasses import replace

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import Distributions
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.gpus import gpu_findings

CU12, CU13 = Distributions({"cudf-cu12": "26.10.0"}), Distributions({"cudf-cu13": "26.10.0"})


def test_each_gpu_is_described(gpu: GpuProbe) -> None:
    found = "NVIDIA H100, compute capability 9.0, 79.0 of 80.0 GiB free"
    assert gpu_findings([gpu, gpu], CU13) == [Finding("ok", "GPU 0", found), Finding("ok", "GPU 1", found)]


def test_a_refusal_describes_no_gpu() -> None:
    assert gpu_findings([GpuProbe(False, "no NVIDIA driver", obstacle="no_driver")], CU13) == []


def test_a_volta_runs_the_wheels_of_cuda_12_only(gpu: GpuProbe) -> None:
    volta = replace(gpu, name="NVIDIA V100", capability=(7, 0))
    assert gpu_findings([volta], CU12)[0].level == "ok"
    (finding,) = gpu_findings([volta], CU13)
    assert finding.level == "error"
    assert finding.fix == "pip uninstall -y cudf-cu13 && pip install 'gpupipe[cuda12]'"


def test_a_gpu_that_no_wheel_runs_on_has_no_fix_and_breaks_nothing(gpu: GpuProbe) -> None:
    (finding,) = gpu_findings([replace(gpu, usable=False, capability=(6, 1), obstacle="old_gpu")], CU13)
    assert (finding.level, finding.fix) == ("warning", "")
    assert finding.found.endswith("too old, requires 7.0")


def test_memory_used_by_other_processes_is_a_warning(gpu: GpuProbe) -> None:
    (finding,) = gpu_findings([replace(gpu, free_bytes=10 * 2**30)], CU13)
    assert finding.level == "warning"
    assert "10.0 of 80.0 GiB free" in finding.found
    assert "nvidia-smi" in finding.fix
