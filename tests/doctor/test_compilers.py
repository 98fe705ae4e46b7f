from __future__ import annotations

from dataclasses import replace

import pytest

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import Distributions
from gpupipe.doctor.toolkits import compiler_findings

NUMBA = {"numba-cuda": "0.30.4"}
CU13 = {**NUMBA, "nvidia-nvvm": "13.5.37", "nvidia-cuda-nvrtc": "13.5.37"}
CU12 = {**NUMBA, "nvidia-cuda-nvcc-cu12": "12.9.86", "nvidia-cuda-nvrtc-cu12": "12.9.86"}


@pytest.mark.parametrize(
    ("versions", "cuda", "level", "words"),
    [
        ({**CU13, "nvidia-nvjitlink": "13.5.37"}, (13, 0), "ok", "nvidia-nvjitlink 13.5 accepts"),
        (CU13, (13, 5), "ok", "that the driver (CUDA 13.5) accepts"),
        (CU12, (13, 0), "ok", "that the driver (CUDA 13.0) accepts"),
        ({**CU12, "nvidia-nvjitlink-cu12": "12.9.1"}, (13, 0), "ok", "that the driver (CUDA 13.0) accepts"),
        ({**CU13, "nvidia-nvjitlink": "13.0.88"}, (13, 0), "error", "Unsupported .version"),
        (CU13, (13, 0), "error", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
        ({**CU13, "nvidia-nvjitlink": "13.5.37"}, (12, 8), "error", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    ],
)
def test_the_assembler_must_support_the_ptx_version(
    gpu: GpuProbe, versions: dict[str, str], cuda: tuple[int, int], level: str, words: str
) -> None:
    (finding,) = compiler_findings(Distributions(versions), replace(gpu, cuda=cuda))
    assert finding.level == level
    assert words in finding.found
    assert bool(finding.fix) == (level == "error")


def test_each_fix_is_a_command(gpu: GpuProbe) -> None:
    (missing,) = compiler_findings(Distributions(CU13), gpu)
    older = "pip install 'nvidia-nvvm==13.0.*' 'nvidia-cuda-nvrtc==13.0.*'"
    assert missing.fix == f"pip install 'nvidia-nvjitlink>=13.5,<14', or install an older compiler: {older}"
    (old,) = compiler_findings(Distributions({**CU13, "nvidia-nvjitlink": "13.0.88"}), gpu)
    assert old.fix == "pip install 'nvidia-nvjitlink>=13.5,<14'"


def test_nothing_is_reported_without_a_gpu_or_numba_cuda(gpu: GpuProbe) -> None:
    assert compiler_findings(Distributions(CU13), GpuProbe(False, "no NVIDIA driver", obstacle="no_driver")) == []
    assert compiler_findings(Distributions({"nvidia-nvvm": "13.5.37"}), gpu) == []
    assert compiler_findings(Distributions(NUMBA), gpu) == []
