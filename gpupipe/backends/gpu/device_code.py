"""Checks that kernels can run on the current GPU: as shipped, or compiled at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpupipe.errors import DeviceError

if TYPE_CHECKING:
    from gpupipe_kernels.program.program import Program


def require_kernels() -> None:
    """Check that the current GPU can run the kernels: as shipped, or compiled from newer sources.

    Raise DeviceError if it can run neither.
    """
    from gpupipe_kernels.device import binaries, functions

    try:
        is_ready = binaries.is_ready(functions.capability(functions.current_device()))
    except binaries.DeviceCodeError as error:
        raise DeviceError(error.what, where="device: gpu", fix=error.fix) from error
    if not is_ready:
        _require_compiler()


def require_call_compiler(program: Program) -> None:
    """Check that the user kernels that a program calls can be compiled.

    Raise DeviceError if they cannot; the message contains their names.
    """
    from gpupipe_kernels.device.compiler import compiler_obstacle
    from gpupipe_kernels.device.functions import COMPILER
    from gpupipe_kernels.launch import is_simulated

    if program.calls and not is_simulated() and (obstacle := compiler_obstacle()):
        raise DeviceError(
            f"user kernels cannot be compiled for the GPU ({obstacle}): "
            + ", ".join(call.name for call in program.calls),
            where="device: gpu",
            fix=f"{COMPILER}, or run with --device cpu",
        )


def _require_compiler() -> None:
    """Raise DeviceError if numba-cuda cannot load one of the libraries that compile device code."""
    from gpupipe_kernels.toolchain import export_command, find_libraries, find_toolkits, visibility_settings

    missing = [name for name, path in find_libraries().items() if not path]
    if not missing:
        return
    install = "pip install 'numba-cuda[cu13]' (or cu12)"
    toolkits = find_toolkits()
    fix = f"{export_command(visibility_settings(toolkits[0]))}, or {install}" if toolkits else install
    raise DeviceError(
        f"kernels cannot be compiled for the GPU: numba-cuda cannot load {', '.join(missing)}",
        where="device: gpu",
        fix=f"{fix}, or run with --device cpu; `gpupipe doctor` checks the whole machine",
    )
