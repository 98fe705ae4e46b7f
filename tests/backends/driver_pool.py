"""A test double of the driver's memory pool, with CuPy's functions for it.

>>> pool = DriverPool()
>>> cupy = pool.cupy()
>>> held = cupy.cuda.malloc_async(100)
>>> cupy.cuda.runtime.memPoolGetAttribute(pool.handle, cupy.cuda.runtime.cudaMemPoolAttrUsedMemCurrent)
100
>>> del held
>>> pool.used
0
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpupipe.units import GIB

TOTAL = 80 * GIB
# As CUDA numbers them
ATTRIBUTES = {"ReleaseThreshold": 4, "ReservedMemCurrent": 5, "UsedMemCurrent": 7, "UsedMemHigh": 8}


class DriverPool:
    """The default pool of a device of 80 GiB, which counts bytes.

    Attributes
    ----------
    used, reserved, peak, threshold : int
        Bytes that are allocated, and that the pool holds; the largest `used` since it was reset; the bytes that the
        pool keeps when they are freed.
    is_supported : int
        Whether the device has pools, as the driver reports it.
    allocator : callable or None
        The allocator that CuPy was given.
    """

    handle = 0xBEEF

    def __init__(self) -> None:
        self.used = self.reserved = self.peak = self.threshold = 0
        self.is_supported = 1
        self.allocator: Any = None

    def take(self, size: int) -> None:
        """Allocate `size` bytes."""
        self.used += size
        self.reserved, self.peak = max(self.reserved, self.used), max(self.peak, self.used)

    def give_back(self, size: int) -> None:
        """Free `size` bytes; with a release threshold, the pool keeps what it has reserved."""
        self.used -= size
        if not self.threshold:
            self.reserved = self.used

    def allocate(self, size: int) -> Memory:
        """Return `size` bytes, freed with the object, as CuPy's are."""
        self.take(size)
        return Memory(self, size)

    def cupy(self) -> Any:
        """Return the part of CuPy that allocates."""
        names = {4: "threshold", 5: "reserved", 7: "used", 8: "peak"}
        runtime = SimpleNamespace(
            getDevice=lambda: 0,
            deviceGetAttribute=lambda attrib, device: self.is_supported,
            cudaDevAttrMemoryPoolsSupported=115,
            deviceGetDefaultMemPool=lambda device: self.handle,
            memGetInfo=lambda: (TOTAL - self.reserved, TOTAL),
            memPoolGetAttribute=lambda pool, attr: getattr(self, names[attr]) if pool == self.handle else None,
            memPoolSetAttribute=lambda pool, attr, value: setattr(self, names[attr], value),
            **{f"cudaMemPoolAttr{name}": number for name, number in ATTRIBUTES.items()},
        )
        return SimpleNamespace(
            cuda=SimpleNamespace(
                runtime=runtime,
                set_allocator=lambda allocator: setattr(self, "allocator", allocator),
                malloc_async=self.allocate,
            )
        )


class Memory:
    """Bytes of a pool."""

    def __init__(self, pool: DriverPool, size: int) -> None:
        self.pool, self.size = pool, size

    def __del__(self) -> None:
        self.pool.give_back(self.size)
