"""Catalog of the kernels of this package, and of the device loops that they launch."""

from __future__ import annotations

from functools import cache
from itertools import chain

from gpupipe_kernels.contract import KernelDeclaration
from gpupipe_kernels.launch import THREADS_A_BLOCK, DeviceLoop


@cache
def kernels() -> dict[str, KernelDeclaration]:
    """Return every kernel by name, grouped by family."""
    from gpupipe_kernels.draws import kernels as draws
    from gpupipe_kernels.interpreters import kernels as rowwise
    from gpupipe_kernels.interpreters import whole_program
    from gpupipe_kernels.keyed import kernels as keyed
    from gpupipe_kernels.reduce import kernels as reduce
    from gpupipe_kernels.text import kernels as text

    families = (rowwise, whole_program, keyed, text, reduce, draws)
    declared = list(chain.from_iterable(family.KERNELS for family in families))
    found = {kernel.name: kernel for kernel in declared}
    if len(found) < len(declared):
        raise ValueError(f"kernel names are not unique: {sorted(kernel.name for kernel in declared)}")
    return found


@cache
def device_loops() -> dict[str, DeviceLoop]:
    """Return every device loop launched by a kernel, by name."""
    loops = dict.fromkeys(chain.from_iterable(kernel.device for kernel in kernels().values()))
    found = {loop.name: loop for loop in loops}
    if len(found) < len(loops):
        raise ValueError(f"device loop names are not unique: {sorted(loop.name for loop in loops)}")
    return found


def block_of(name: str) -> tuple[int, int]:
    """Return (threads, bytes of dynamic shared memory) of one block of a device loop, as launched.

    For the interpreters, this assumes a program without a stack, whose lookup tables stay in global memory.
    """
    from gpupipe_kernels.interpreters.cuda.interpreter import PANEL_CELLS, THREADS

    of_programs = {"columns": (THREADS["columns"], 0), "rows": (THREADS["rows"], 4 * PANEL_CELLS)}
    kernel, _, order = name.rpartition("_")
    return of_programs[order] if kernel in ("interpret", "interpret_small") else (THREADS_A_BLOCK, 0)
