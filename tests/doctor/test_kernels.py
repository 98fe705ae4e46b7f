"""The finding on the machine code of the kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupipe.backends.probe import GpuProbe
from gpupipe.doctor.distributions import Distributions
from gpupipe.doctor.finding import Finding
from gpupipe.doctor.toolkits import kernel_findings
from gpupipe_kernels.device import binaries

NOTHING, NUMBA = Distributions({}), Distributions({"numba-cuda": "0.30.4"})


@pytest.mark.parametrize(
    ("capability", "file"), [((7, 5), "sm_75"), ((8, 9), "sm_80"), ((9, 0), "sm_90"), ((11, 0), "ptx")]
)
def test_the_file_for_the_chip_is_named(gpu: GpuProbe, capability: tuple[int, int], file: str) -> None:
    (finding,) = kernel_findings(NUMBA, replace(gpu, capability=capability))
    name = ".".join(map(str, capability))
    assert finding.found.startswith(f"shipped for compute capability {name}: {file}")
    assert (finding.level, finding.fix) == ("ok", "")
    assert kernel_findings(NUMBA, GpuProbe(False, "no NVIDIA driver", obstacle="no_driver")) == []


def test_without_a_compiler_only_kernels_of_ones_own_are_missing(gpu: GpuProbe) -> None:
    (finding,) = kernel_findings(NOTHING, gpu)
    assert finding == Finding(
        "ok", "GPU kernels", "shipped for compute capability 9.0: sm_90.cubin; user kernels need numba-cuda"
    )


def test_edited_sources_need_the_tool_or_a_compiler(gpu: GpuProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "is_current", lambda: False)
    assert [kernel_findings(found, gpu)[0].level for found in (NOTHING, NUMBA)] == ["error", "warning"]
    assert {kernel_findings(found, gpu)[0].fix for found in (NOTHING, NUMBA)} == {"python -m tools.device_code"}


def test_a_chip_that_is_too_old_is_an_error(gpu: GpuProbe) -> None:
    (finding,) = kernel_findings(NUMBA, replace(gpu, capability=(7, 0)))
    assert finding == Finding(
        "error", "GPU kernels", "expected a GPU of compute capability 7.5 or later, found 7.0", "use device: cpu"
    )
