"""Occupancy against NVIDIA's calculator."""

from __future__ import annotations

import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pytest

from gpupipe_kernels.proof.occupancy import MULTIPROCESSORS, occupancy, resident_blocks

PROGRAM = """
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
    int major, minor, threads_sm, shared_sm, reserved, registers, shared, threads;
    while (scanf("%d%d%d%d%d%d%d%d", &major, &minor, &threads_sm, &shared_sm, &reserved, &registers, &shared,
                 &threads) == 8) {
        cudaOccDeviceProp device;
        device.computeMajor = major, device.computeMinor = minor, device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = threads_sm, device.regsPerBlock = 65536;
        device.regsPerMultiprocessor = 65536, device.warpSize = 32, device.sharedMemPerBlock = 49152;
        device.sharedMemPerMultiprocessor = shared_sm, device.numSms = 1, device.sharedMemPerBlockOptin = 49152;
        device.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers, kernel.sharedSizeBytes = shared;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF, kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_DEFAULT;
        kernel.maxDynamicSharedSizeBytes = 0, kernel.numBlockBarriers = 1;
        cudaOccDeviceState state;
        cudaOccResult result;
        if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, 0)) return 1;
        printf("%d\\n", result.activeBlocksPerMultiprocessor);
    }
}
"""
CASES = [
    (architecture, registers, shared, threads)
    for architecture in MULTIPROCESSORS
    for registers in (1, 16, 32, 33, 40, 57, 64, 96, 128, 168, 255)
    for shared in (0, 1, 127, 1024, 9_000, 40_000)
    for threads in (32, 96, 128, 256, 512)
]


@pytest.fixture(scope="module")
def header() -> Path:
    """The folder of ``cuda_occupancy.h``."""
    try:
        found = [Path(str(file.locate())) for file in files("nvidia-cuda-runtime") or []]
    except PackageNotFoundError:
        found = []
    for file in [*found, Path("/usr/local/cuda/include/cuda_occupancy.h")]:
        if file.name == "cuda_occupancy.h" and file.exists():
            return file.parent
    pytest.skip("NVIDIA's cuda_occupancy.h is not here: it comes with the package nvidia-cuda-runtime")


def test_as_many_blocks_are_resident_as_nvidia_s_calculator_says(header: Path, tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler: NVIDIA's calculator cannot be built")
    (tmp_path / "calculator.cpp").write_text(PROGRAM)
    command = [compiler, "-I", str(header), str(tmp_path / "calculator.cpp"), "-o", str(tmp_path / "calculator")]
    subprocess.run(command, check=True)
    lines = []
    for architecture, registers, shared, threads in CASES:
        limits, capability = MULTIPROCESSORS[architecture], divmod(int(architecture[3:]), 10)
        device = (*capability, limits.threads, limits.shared_bytes, limits.reserved_bytes)
        lines.append(" ".join(map(str, (*device, registers, shared, threads))))
    done = subprocess.run(
        [str(tmp_path / "calculator")], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    assert [int(word) for word in done.stdout.split()] == [resident_blocks(*case) for case in CASES]


def test_a_kernel_of_few_registers_fills_the_multiprocessor() -> None:
    assert {occupancy(architecture, 32, 0, 256) for architecture in MULTIPROCESSORS} == {1.0}


def test_128_registers_leave_a_quarter_of_the_warps() -> None:
    assert occupancy("sm_90", 128, 0, 256) == 0.25
