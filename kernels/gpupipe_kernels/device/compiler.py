"""Compilation of entries to PTX by numba-cuda, with or without a GPU.

The PTX is for compute capability 7.5 and runs on every later one. Without a GPU, ptxas assembles it for each; on a GPU,
the driver does. numba-cuda never opens the device: it queries the current GPU as soon as a loop calls another device
function, and gets the capability of the target instead.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import chain
from types import SimpleNamespace
from typing import Any

from numba import types

from gpupipe_kernels.device.binaries import CAPABILITY
from gpupipe_kernels.device.language import bind
from gpupipe_kernels.device.parameters import Entry, Parameter
from gpupipe_kernels.toolchain import find_libraries

PTX_HEADER = ".version 6.3\n.target sm_75\n.address_size 64\n"
"""The lowest version of PTX for this target, so that every driver reads it. libnvvm writes its own, the newest that it
knows, but uses nothing newer, which the assembler checks when it builds the shipped code."""

_lock = threading.Lock()


@cache
def compiler_obstacle() -> str:
    """Return the reason why no device code can be compiled at run time, or ``""``."""
    if find_spec("numba_cuda") is None:
        return "numba-cuda is not installed"
    missing = [name for name, path in find_libraries().items() if not path]
    return f"numba-cuda cannot load {', '.join(missing)}" if missing else ""


def compile_entry(function: Callable[..., Any], entry: Entry, inlined: Callable[[Any], Any]) -> str:
    """Return the PTX of an entry, without a header: see `join`.

    Raise ValueError if it does not compile; the message contains its name and the compiler's error.

    Parameters
    ----------
    function : callable
        The device loop.
    inlined : callable
        Compiles `function` such that it is inlined: `gpupipe_kernels.launch.array_formula`.
    """
    with _lock:
        cuda = bind(function)
        from numba.cuda.np.numpy_support import carray

        names: dict[str, Any] = {"carray": carray, "loop": inlined(function)}
        exec(compile(entry.wrapper, f"<{entry.name}>", "exec"), names)
        signature = types.void(*chain.from_iterable(map(_numba_types, entry.parameters)))
        with _target():
            try:
                ptx, _ = cuda.compile_ptx(names["entry"], signature, cc=CAPABILITY)
            except Exception as error:
                raise ValueError(
                    f"{entry.name} does not compile for a device: {type(error).__name__}: {error}"
                ) from error
    return _cleaned(ptx, entry.name)


def join(entries: Iterable[str]) -> str:
    """Return one module of PTX with several entries."""
    return PTX_HEADER + "".join(entries)


def _numba_types(parameter: Parameter) -> list[Any]:
    kind = getattr(types, "boolean" if parameter.dtype == bool else str(parameter.dtype))
    return [types.CPointer(kind), *[types.int64] * parameter.n_axes] if parameter.n_axes else [kind]


@contextmanager
def _target() -> Iterator[None]:
    """Give numba-cuda the target's capability where it asks for that of the current GPU."""
    from numba.cuda import dispatcher

    before = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=CAPABILITY)
    try:
        yield
    finally:
        dispatcher.get_current_device = before


def _cleaned(ptx: str, name: str) -> str:
    """Return an entry without header and comments, under its short name, and with names that are unique in a module.

    Numba adds a variable ``NumbaEnv`` for each function, which nothing reads, and libnvvm its version in comments.
    """
    body = ptx.partition(".address_size 64\n")[2]
    mangled = re.search(r"\.visible \.entry (\w+)\(", body)
    if mangled is None:
        raise ValueError(f"expected one entry in the PTX of {name}, found none")
    body = body.replace(mangled[1], name)
    body = re.sub(r"^\.common \.global [^\n]*NumbaEnv[^\n]*;\n|^\s*//[^\n]*\n", "", body, flags=re.MULTILINE)
    symbols = dict.fromkeys(re.findall(r"\b__internal_\w+|\b_cudapy_smem_\w+", body))
    for number, symbol in enumerate(symbols):  # numba-cuda numbers them in the order of compilation
        body = re.sub(rf"\b{symbol}\b", f"{name}__{number}", body)
    return re.sub(r"\n{2,}", "\n", body)
