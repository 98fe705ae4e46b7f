"""A user's kernel on both processors: one function, the null policy around it, compiled once for each.

Compiled code is kept on disk under a hash of the kernel's text: the same kernel is found again whichever file it came
from, and a changed one never is.
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

from gpupipe_kernels.launch import DeviceLoop, _kept_in_our_folder, formula
from gpupipe_kernels.user.language import BUILTINS, KernelError, check
from gpupipe_kernels.user.source import KernelStatement, verify

if TYPE_CHECKING:
    from gpupipe_kernels.user.kernel import UserKernel

Function = Callable[..., Any]

# Numba compiles no star-arguments, so what surrounds a function is written out for its number of inputs.
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
    return float32(x | 0)  # floats have no such operation: Numba refuses what truncating would hide


def _truth(x: Any) -> Any:
    return float32((x | False) != 0)


USABLE_BUILTINS = {name: getattr(builtins, name) for name in sorted(BUILTINS)}
# What Numba lets through where it computes constants itself, beside errors of its own.
COMPILER_FAILURES = (ArithmeticError, ValueError, TypeError, MemoryError, RecursionError, AssertionError)

RESULTS: Mapping[str, Function] = {"float32": _number, "int32": _whole, "bool": _truth}
"""What is made of that which the function returns."""

FIXES = {"int32": "return int(…), or say out='float32'", "bool": "return a comparison, or say out='float32'"}


class CompiledKernel:
    """A user's function with its null policy, for both processors."""

    def __init__(self, kernel: UserKernel) -> None:
        self.kernel = kernel

    @cached_property
    def plain(self) -> Function:
        """The user's function; what it calls is a formula, and so becomes part of it."""
        verify(self.kernel.pieces)
        names: dict[str, Any] = {"__name__": __name__, "__builtins__": USABLE_BUILTINS}
        for piece in self.kernel.pieces:
            if piece.function is None:
                names[piece.name] = piece.value
                continue
            checked = check(piece.function, piece.file)  # again: this tree, and no other, is run
            _run(ast.Module([checked], []), piece.file or "<kernel>", names)
            if piece is not self.kernel.pieces[-1]:
                names[piece.name] = formula(names[piece.name])
        function: Function = names[self.kernel.name]
        return function

    @cached_property
    def guard(self) -> Function:
        """The function with its null policy, before any compiler."""
        return self._written(
            GUARD,
            NULL=np.float32(np.nan),
            propagate=self.kernel.nulls == "propagate",
            result=formula(RESULTS[self.kernel.out]),
            function=formula(self.plain),
        )

    @cached_property
    def formula(self) -> Any:
        """The function with its null policy, for compiled code of either processor to call."""
        return formula(self.guard)

    @cached_property
    def ufunc(self) -> Any:
        """The function with its null policy as a NumPy ufunc of float32 arrays, compiled here or earlier.

        Raises
        ------
        KernelError
            If it cannot be compiled; has the line of the user's file.
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
        """The loop over rows of a device: float32 inputs, and the output."""
        from numba import cuda

        made = self._written(LOOP, guard=self.formula, cuda=cuda)
        return DeviceLoop(made, *["float32[::1]"] * (self.kernel.n_inputs + 1))

    def _written(self, template: str, **names: Any) -> Function:
        """Return the function that a template gives for this kernel.

        Its name is that of its file in Numba's cache, so it has the hash of the kernel; and as Numba keeps functions of
        files only, it is said to be of this one.
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
        """Return why the compiler refuses, by compiling the user's function alone: all lines are the user's then."""
        kernel, own = self.kernel, self.kernel.pieces[-1]
        alone = njit(error_model="numpy")(self.plain)
        try:
            alone.compile((float32,) * kernel.n_inputs)
        except NumbaError as error:
            what, where = _reading(error, kernel.pieces)
            return KernelError(f"{kernel.name}: {what}", where, "a kernel is arithmetic on numbers")
        returned = alone.nopython_signatures[0].return_type
        what = f"{kernel.name}: returns {returned}, and its result is {kernel.out}"
        return KernelError(what, f"{own.file}:{own.line}", FIXES.get(kernel.out, "return one number"))


@cache
def compiled(kernel: UserKernel) -> CompiledKernel:
    """Return the one `CompiledKernel` of equal kernels."""
    return CompiledKernel(kernel)


def _run(tree: ast.Module, file: str, names: dict[str, Any]) -> None:
    try:
        code = compile(tree, file, "exec", dont_inherit=True)
    except RecursionError:
        raise KernelError("is nested too deeply", file, "give parts of it names") from None
    exec(code, names)


def _reading(error: NumbaError, pieces: tuple[KernelStatement, ...]) -> tuple[str, str]:
    """Return the sentence of Numba's message that is about the user's function, and its line, the innermost one."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Failed in")]
    call = next((line.removeprefix(">>>").strip() for line in lines if line.startswith(">>>")), "")
    what = f"cannot compute {call}" if call else lines[0] if lines else text
    files = {os.path.relpath(piece.file): piece.file for piece in pieces if piece.file}
    places = re.findall(r'File "(.+?)", line (\d+)', text)
    mine = [f"{files[file]}:{line}" for file, line in places if file in files]
    return what, mine[0] if mine else f"{pieces[-1].file}:{pieces[-1].line}"
