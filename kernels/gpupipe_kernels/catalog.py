"""All kernels of this package by name, and the loops that they launch on the device."""

from __future__ import annotations

from functools import cache

from gpupipe_kernels.contract import Kernel
from gpupipe_kernels.launch import DeviceLoop


@cache
def kernels() -> dict[str, Kernel]:
    """Return every kernel by its name, family by family."""
    from gpupipe_kernels import keyed, rowwise, text, whole_program

    declared = (*rowwise.KERNELS, *whole_program.KERNELS, *keyed.KERNELS, *text.KERNELS)
    found = {kernel.name: kernel for kernel in declared}
    if len(found) < len(declared):
        raise ValueError(f"two kernels have one name: {sorted(kernel.name for kernel in declared)}")
    return found


@cache
def device_loops() -> dict[str, DeviceLoop]:
    """Return every loop that a kernel launches on the device, by its name."""
    loops = dict.fromkeys(loop for kernel in kernels().values() for loop in kernel.device)
    found = {loop.name: loop for loop in loops}
    if len(found) < len(loops):
        raise ValueError(f"two device loops have one name: {sorted(loop.name for loop in loops)}")
    return found
