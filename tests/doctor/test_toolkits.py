"""numba-cuda's own search, in real processes, over toolkits in folders that it searches and in others."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import Distributions
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.toolkits import library_findings
from gpupipe_kernels.proof.device_compilers import missing_compiler
from tests.toolkits import Toolkits

INSTALLED = Distributions({"numba-cuda": "0.30.4"})
MISSING = "numba-cuda cannot load libnvvm, so no user kernel can be compiled"


@pytest.fixture
def toolkits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolkits:
    """A machine with nothing but numba-cuda and the wheel of libnvrtc."""
    if missing := missing_compiler():
        pytest.skip(missing)
    toolkits = Toolkits(tmp_path)
    monkeypatch.syspath_prepend(str(toolkits.path))
    monkeypatch.setenv("PACKAGES", str(toolkits.packages))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    toolkits.wheel("libnvrtc.so.13")
    return toolkits


def find(gpu: GpuProbe, root: Path) -> Finding:
    (finding,) = library_findings(INSTALLED, gpu, 60, root)
    return finding


def test_an_unsearched_toolkit_is_named_with_a_fix(
    toolkits: Toolkits, gpu: GpuProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = toolkits.toolkit(tmp_path / "usr/local/cuda-13.0", nvvm="nvvm/lib64")
    finding = find(gpu, tmp_path)
    assert finding == Finding(
        "warning", "CUDA libraries", f"{MISSING}; it does not search {toolkit}", f"export CUDA_HOME={toolkit}"
    )
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    finding = find(gpu, tmp_path)
    assert finding.level == "ok"
    assert f"{toolkit}/nvvm/lib64/libnvvm.so.4, {toolkit}/nvvm/libdevice/libdevice.10.bc" in finding.found
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))  # searched first, and CUDA_HOME not at all
    assert find(gpu, tmp_path).fix == f"export CUDA_HOME={toolkit} CUDA_PATH={toolkit}"


def test_the_toolkit_is_queried_from_an_nvcc_script_elsewhere(
    toolkits: Toolkits, gpu: GpuProbe, tmp_path: Path
) -> None:
    toolkit = toolkits.toolkit(tmp_path / "somewhere", nvvm="lib")  # as those made of wheels
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.write_text(f"#!/bin/sh\necho '#$ TOP={toolkit}/bin/..' >&2\n")
    nvcc.chmod(0o755)
    (toolkit / "bin").mkdir()
    finding = find(gpu, tmp_path)
    assert (finding.level, finding.fix) == ("warning", f"export CUDA_HOME={toolkit} LD_LIBRARY_PATH={toolkit}/lib")


def test_ineffective_fixes_are_not_suggested(
    toolkits: Toolkits, gpu: GpuProbe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = toolkits.toolkit(tmp_path / "usr/local/cuda-13.0", nvvm="nvvm/lib64")
    (toolkit / "nvvm" / "lib64" / "libnvvm.so.4").write_text("no library")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))  # found, and cannot be loaded
    finding = find(gpu, tmp_path)
    assert (finding.found, finding.fix) == (MISSING, "pip install 'numba-cuda[cu13]==0.30.4'")


def test_nothing_is_reported_without_a_gpu_or_numba_cuda(gpu: GpuProbe) -> None:
    assert library_findings(INSTALLED, GpuProbe(False, "no NVIDIA driver", obstacle="no_driver"), 60) == []
    assert library_findings(Distributions({}), gpu, 60) == []
