"""Occupancy: the number of warps that fit on a multiprocessor, given a kernel's registers and shared memory.

Limits and arithmetic follow NVIDIA's ``cuda_occupancy.h`` (CUDA 13.0) and the table "Technical Specifications per
Compute Capability" in the CUDA C++ Programming Guide.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
REGISTERS = 65_536  # per multiprocessor, in four partitions; a warp stays in one
PARTITIONS = 4
REGISTER_UNIT = 256  # allocation unit of registers per warp


@dataclass(frozen=True)
class Multiprocessor:
    """Limits of a multiprocessor.

    Attributes
    ----------
    threads, blocks : int
        Maximum number resident at the same time.
    shared_bytes : int
        Size of shared memory.
    reserved_bytes : int
        Shared memory per block that the driver reserves.
    shared_unit : int
        Allocation unit of shared memory, in bytes.
    """

    threads: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int = 1024
    shared_unit: int = 128


MULTIPROCESSORS = {
    "sm_75": Multiprocessor(1024, 16, 64 * 1024, reserved_bytes=0, shared_unit=256),
    "sm_80": Multiprocessor(2048, 32, 164 * 1024),
    "sm_90": Multiprocessor(2048, 32, 228 * 1024),
    "sm_100": Multiprocessor(2048, 32, 228 * 1024),
    "sm_120": Multiprocessor(1536, 24, 100 * 1024),
}
"""Turing, Ampere (A100), Hopper, and Blackwell for data centres and desktops."""


def resident_blocks(architecture: str, registers: int, shared_bytes: int, threads: int) -> int:
    """Return the number of blocks resident on a multiprocessor at the same time.

    Parameters
    ----------
    architecture : str
        A key of `MULTIPROCESSORS`.
    registers : int
        Of a thread.
    shared_bytes : int
        Static and dynamic shared memory per block.
    threads : int
        Of a block.
    """
    limits = MULTIPROCESSORS[architecture]
    warps = -(-threads // WARP)
    by_warps = limits.threads // WARP // warps
    warp_registers = _rounded_up(max(registers, 1) * WARP, REGISTER_UNIT)
    by_registers = REGISTERS // PARTITIONS // warp_registers * PARTITIONS // warps
    block_bytes = _rounded_up(shared_bytes + limits.reserved_bytes, limits.shared_unit)
    by_shared = limits.shared_bytes // block_bytes if block_bytes else limits.blocks
    return min(limits.blocks, by_warps, by_registers, by_shared)


def occupancy(architecture: str, registers: int, shared_bytes: int, threads: int) -> float:
    """Return the occupancy: the share of a multiprocessor's warps that can be resident, 0 to 1."""
    warps = resident_blocks(architecture, registers, shared_bytes, threads) * -(-threads // WARP)
    return warps * WARP / MULTIPROCESSORS[architecture].threads


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
