"""Compilation of a user kernel and its null policy for CPU and GPU.

Compiled code is cached on disk under a hash of the kernel's source, so it is reused for the same kernel from another
file, and never for a changed kernel.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import float32, njit, vectorize
from numba.core.errors import NumbaError

from gpupipe_kernels.device.language import cuda
from gpupipe_kernels.launch import DeviceLoop, _kept_in_our_folder, formula
from gpupipe_kernels.user.language import BUILTINS, KernelError, check
from gpupipe_kernels.user.source import KernelStatement, verify

if TYPE_CHECKING:
    from gpupipe_kernels.user.kernel import UserKernel

Function = Callable[..., Any]

# Numba does not support star-arguments, so wrappers are generated for each number of inputs.
GUARD = """
def {name}({inputs}):
    return NULL if propagate and ({any_null}) else result(function({inputs}))
"""
LOOP = """
def {name}({inputs}, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = guard({cells})
"""


def _number(x: Any) -> Any:
    return float32(x)


def _whole(x: Any) -> Any:
    return float32(x | 0)  # not defined for floats, so Numba rejects a result that would be truncated


def _truth(x: Any) -> Any:
    return float32((x | False) != 0)


USABLE_BUILTINS = {name: getattr(builtins, name) for name in sorted(BUILTINS)}
# Errors of constant folding, which Numba does not convert to its own exceptions.
COMPILER_FAILURES = (ArithmeticError, ValueError, TypeError, MemoryError, RecursionError, AssertionError)

RESULTS: Mapping[str, Function] = {"float32": _number, "int32": _whole, "bool": _truth}
"""Conversion of the function's return value to the output type."""

FIXES = {"int32": "return int(…), or set out='float32'", "bool": "return a comparison, or set out='float32'"}


class CompiledKernel:
    """A user function with its null policy, for CPU and GPU."""

    def __init__(self, kernel: UserKernel) -> None:
        self.kernel = kernel

    @cached_property
    def plain(self) -> Function:
        """The user's function; the functions that it calls are formulas and are inlined."""
        verify(self.kernel.pieces)
        names: dict[str, Any] = {"__name__": __name__, "__builtins__": USABLE_BUILTINS}
        for piece in self.kernel.pieces:
            if piece.function is None:
                names[piece.name] = piece.value
                continue
            checked = check(piece.function, piece.file)  # check again, because exactly this tree is executed
            _run(ast.Module([checked], []), piece.file or "<kernel>", names)
            if piece is not self.kernel.pieces[-1]:
                names[piece.name] = formula(names[piece.name])
        function: Function = names[self.kernel.name]
        return function

    @cached_property
    def guard(self) -> Function:
        """The function with its null policy, not compiled."""
        return self._written(
            GUARD,
            NULL=np.float32(np.nan),
            propagate=self.kernel.nulls == "propagate",
            result=formula(RESULTS[self.kernel.out]),
            function=formula(self.plain),
        )

    @cached_property
    def formula(self) -> Any:
        """The function with its null policy, callable from compiled host and device code."""
        return formula(self.guard)

    @cached_property
    def ufunc(self) -> Any:
        """The function with its null policy as a NumPy ufunc of float32 arrays, compiled or loaded from disk.

        Raise KernelError if it cannot be compiled; the message contains the line of the user's file.
        """
        try:
            with _kept_in_our_folder() as kept:
                return vectorize([float32(*[float32] * self.kernel.n_inputs)], cache=kept)(self.guard)
        except NumbaError:
            raise self._explained() from None
        except COMPILER_FAILURES as error:
            what = f"{self.kernel.name}: cannot be compiled: {type(error).__name__}: {error}"
            raise KernelError(what, self.kernel.pieces[-1].file, "write its constants as plain numbers") from None

    @cached_property
    def loop(self) -> DeviceLoop:
        """The device loop over rows: float32 inputs, and the output."""
        made = self._written(LOOP, guard=self.formula, cuda=cuda)
        return DeviceLoop(made, *["float32[::1]"] * (self.kernel.n_inputs + 1), key=made.__name__)

    def _written(self, template: str, **names: Any) -> Function:
        """Return the function generated from a template for this kernel.

        Its name contains the hash of the kernel, because Numba names cache files after functions. It claims to be
        defined in this file, because Numba caches only functions defined in files.
        """
        name = f"{self.kernel.name}_{self.kernel.sha256[:24]}"
        inputs = [f"x{i}" for i in range(self.kernel.n_inputs)]
        text = template.format(
            name=name,
            inputs=", ".join(inputs),
            cells=", ".join(f"{x}[i]" for x in inputs),
            any_null=" or ".join(f"{x} != {x}" for x in inputs),
        )
        names["__name__"] = __name__
        _run(ast.parse(text), __file__, names)
        function: Function = names[name]
        return function

    def _explained(self) -> KernelError:
        """Return the compiler's error for the user's function alone, so that all line numbers are the user's."""
        kernel, own = self.kernel, self.kernel.pieces[-1]
        alone = njit(error_model="numpy")(self.plain)
        try:
            alone.compile((float32,) * kernel.n_inputs)
        except NumbaError as error:
            what, where = _reading(error, kernel.pieces)
            return KernelError(f"{kernel.name}: {what}", where, "use only arithmetic on numbers")
        returned = alone.nopython_signatures[0].return_type
        what = f"{kernel.name}: expected a result of type {kernel.out}, found {returned}"
        return KernelError(what, f"{own.file}:{own.line}", FIXES.get(kernel.out, "return one number"))


@cache
def compiled(kernel: UserKernel) -> CompiledKernel:
    """Return the `CompiledKernel` shared by equal kernels."""
    return CompiledKernel(kernel)


def _run(tree: ast.Module, file: str, names: dict[str, Any]) -> None:
    try:
        code = compile(tree, file, "exec", dont_inherit=True)
    except RecursionError:
        raise KernelError("is nested too deeply", file, "give parts of it names") from None
    exec(code, names)


def _reading(error: NumbaError, pieces: tuple[KernelStatement, ...]) -> tuple[str, str]:
    """Return the sentence of Numba's message about the user's function, and the innermost line number."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Failed in")]
    call = next((line.removeprefix(">>>").strip() for line in lines if line.startswith(">>>")), "")
    what = f"cannot compute {call}" if call else lines[0] if lines else text
    files = {os.path.relpath(piece.file): piece.file for piece in pieces if piece.file}
    places = re.findall(r'File "(.+?)", line (\d+)', text)
    mine = [f"{files[file]}:{line}" for file, line in places if file in files]
    return what, mine[0] if mine else f"{pieces[-1].file}:{pieces[-1].line}"
