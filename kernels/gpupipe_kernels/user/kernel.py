"""``@gp.kernel``: user-written scalar functions as features, on CPU and GPU.

``language``    the kernel language, a subset of Python; ``flow``: control-flow analysis
``source``      the self-contained source of a kernel; ``file``: reading it without executing it
``compilation`` compilation of the function and its null policy for host and device

Numba is imported when a kernel is first computed.
"""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, overload

from gpupipe_kernels.program.opcodes import N_REGISTERS
from gpupipe_kernels.user.file import declared, read
from gpupipe_kernels.user.language import KernelError, parameters
from gpupipe_kernels.user.source import KernelStatement, collect, statement_of, text_of

if TYPE_CHECKING:
    from gpupipe_kernels.user.compilation import CompiledKernel

__all__ = ["KernelError", "UserKernel", "kernel", "load", "restore"]

MOST_INPUTS = N_REGISTERS + 1
Out = Literal["float32", "int32", "bool"]
Nulls = Literal["propagate", "pass"]
CHOICES = {"out": ("float32", "int32", "bool"), "nulls": ("propagate", "pass")}


@overload
def kernel(function: Callable[..., Any], /) -> UserKernel: ...
@overload
def kernel(*, out: Out = "float32", nulls: Nulls = "propagate") -> Callable[[Callable[..., Any]], UserKernel]: ...
def kernel(
    function: Callable[..., Any] | None = None, /, *, out: Out = "float32", nulls: Nulls = "propagate"
) -> UserKernel | Callable[[Callable[..., Any]], UserKernel]:
    """Compile a scalar function to a feature kernel: ``@gp.kernel``, or ``@gp.kernel(out=..., nulls=...)``.

    The function computes one row: it receives a float32 for each input column (booleans as 0 and 1) and returns one
    number. Numba compiles it for the CPU and the GPU at its first use. Use it as the feature op ``kernel``, or call it
    with numbers or arrays.

    The body is arithmetic: ``math``, comparisons, ``if``, loops over ``range``, calls of plain functions and of other
    kernels (without their null policy), and global numbers, whose values are fixed at first use. Lists, text, ``raise``
    and paths without ``return`` are errors. Where Python would raise, results follow IEEE 754: ``1.0 / 0.0`` is
    infinity, ``math.sqrt(-1.0)`` is NaN.

    Parameters
    ----------
    function : callable
        A function of 1 to 8 positional parameters without defaults.
    out : {"float32", "int32", "bool"}
        Type of the result. int32: an integer, exact in the feature matrix up to 2**24. bool: true or false, stored as 1
        or 0.
    nulls : {"propagate", "pass"}
        propagate: the result is null if any input is null, without calling the function. pass: the function receives
        NaN for null.

    Returns
    -------
    UserKernel
        A callable of numbers, or of arrays of shape (n,); arrays return float32, shape (n,).

    Raises
    ------
    KernelError
        If the function cannot be compiled; the message has its file and line.

    Examples
    --------
    >>> import numpy as np
    >>> import gpupipe as gp
    >>> @gp.kernel
    ... def loyalty(tenure, charges):
    ...     return tenure / (1.0 + charges)
    >>> loyalty(3.0, 0.5)
    np.float32(2.0)
    >>> loyalty(np.array([3, np.nan], "float32"), np.array([0.5, 1], "float32"))
    array([ 2., nan], dtype=float32)

    As a feature, in the codes view, which does not scale:

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"months": [3.0, 9.0], "bill": [0.5, 2.0]})
    >>> op = {"kernel": {"use": loyalty, "inputs": ["months", "bill"], "as": "loyalty"}}
    >>> gp.FeatureProgram([op], view="codes").set_output(transform="pandas").fit_transform(frame)
       months  bill  loyalty
    0     3.0   0.5      2.0
    1     9.0   2.0      3.0
    """
    for option, value in (("out", out), ("nulls", nulls)):
        if value not in CHOICES[option]:
            raise KernelError(f"{option}={value!r}", fix=f"expected {option} to be one of {', '.join(CHOICES[option])}")
    if function is None:
        return lambda decorated: UserKernel.of(decorated, out, nulls)
    return UserKernel.of(function, out, nulls)


class UserKernel:
    """A user's scalar function with its null policy, created by `kernel` and callable with numbers and arrays.

    Two kernels are equal if their source, output type and null policy are equal. A pickle contains the source.

    Attributes
    ----------
    name : str
    parameters : tuple of str
    out : {"float32", "int32", "bool"}
    nulls : {"propagate", "pass"}
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[str, ...],
        out: str,
        nulls: str,
        collected: Callable[[], tuple[KernelStatement, ...]],
    ) -> None:
        self.name = name
        self.parameters = inputs
        self.out = out
        self.nulls = nulls
        self._collected = collected

    @cached_property
    def pieces(self) -> tuple[KernelStatement, ...]:
        """The statements that the function uses, then the function; collected at first use, so helpers may follow."""
        return self._collected()

    @cached_property
    def source(self) -> str:
        """Source of the kernel and of everything it uses: a Python file that a configuration can refer to."""
        return text_of(self.pieces, f'@gpupipe.kernel(out="{self.out}", nulls="{self.nulls}")')

    @property
    def sha256(self) -> str:
        """Hexadecimal SHA-256 of `source`."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @property
    def n_inputs(self) -> int:
        """Number of float32 arguments."""
        return len(self.parameters)

    @classmethod
    def of(cls, function: Callable[..., Any], out: str, nulls: str) -> UserKernel:
        """Return the kernel for a function."""
        piece = statement_of(function, n_decorators=1)
        inputs = parameters(piece.function)  # type: ignore[arg-type]
        if not 1 <= len(inputs) <= MOST_INPUTS:
            what = f"{piece.name}: expected 1 to {MOST_INPUTS} inputs, found {len(inputs)}"
            raise KernelError(what, f"{piece.file}:{piece.line}", "split it into several kernels")
        made = cls(piece.name, inputs, out, nulls, lambda: collect(function, piece))
        made.__doc__ = function.__doc__
        return made

    @cached_property
    def compiled(self) -> CompiledKernel:
        """The function for CPU and GPU, compiled lazily."""
        from gpupipe_kernels.user.compilation import compiled

        return compiled(self)

    def compile(self) -> None:
        """Compile for the host now, or load the compiled code from disk.

        Raises
        ------
        KernelError
            If it cannot be compiled; the message contains the line of the user's file.
        """
        _ = self.compiled.ufunc

    def host(self, *inputs: Any, out: Any = None) -> Any:
        """Return the result for float32 host arrays, with the null policy applied; `out` may be one of the inputs.

        Raises
        ------
        KernelError
            If Numba raises, which it does for the integer exponent -2**63.
        """
        # The compiled loop vectorises only if its output is not one of its inputs; the copy costs a third of the gain.
        try:
            return self.compiled.ufunc(*(x.copy() if x is out else x for x in inputs), out=out)
        except ArithmeticError as error:
            what = f"{self.name}: integer power out of range ({type(error).__name__})"
            raise KernelError(what, self.pieces[-1].file, "make the exponent a float") from None

    @property
    def formula(self) -> Any:
        """The function with its null policy, callable from compiled host and device code."""
        return self.compiled.formula

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = 0) -> Any:
        """Return the result of the kernel.

        Parameters
        ----------
        *inputs : numbers, or arrays of one shape
            Converted to float32; NaN is null. On a device: 1-D float32 arrays.
        out : array of float32, shape (n,), optional
            Required on a device.
        stream : cuda stream, optional

        Returns
        -------
        float32, or array of float32 (`out` if it is given)
        """
        import numpy as np

        from gpupipe_kernels.launch import is_on_device

        if len(inputs) != self.n_inputs:
            raise TypeError(f"{self!r}: expected {self.n_inputs} inputs, got {len(inputs)}")
        if not any(map(is_on_device, inputs)):
            with np.errstate(all="ignore"):  # NaN and inf are results
                return self.host(*(np.asarray(x, np.float32) for x in inputs), out=out)
        if out is None:
            raise TypeError(f"{self.name}: device arrays require out=, a float32 device array")
        self.compiled.loop.launch(out.size, *inputs, out, stream=stream)
        return out

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserKernel) and self.source == other.source

    def __hash__(self) -> int:
        return hash(self.source)

    def __deepcopy__(self, memo: Any) -> UserKernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.source, f"<kernel {self.name}>")

    def __repr__(self) -> str:
        return f"kernel {self.name}({', '.join(self.parameters)}) -> {self.out}, nulls {self.nulls}"


def load(path: Path, name: str) -> UserKernel:
    """Execute a user's Python file and return its kernel `name`.

    Raises
    ------
    KernelError
        If the kernel does not exist, or the file raises; the message contains the line of the file.
    """
    path = path.absolute()
    declared(path, name)
    module = ModuleType(f"gpupipe_kernel_file_{path.stem}")
    module.__file__ = str(path)
    try:  # not by an import, which would check modification times and write byte code
        exec(compile(path.read_bytes(), path, "exec"), vars(module))
    except KernelError:
        raise
    except Exception as error:  # a user's file can raise anything
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        raise KernelError(f"executing the file failed: {type(error).__name__}: {error}", where) from error
    found = getattr(module, name, None)
    if not isinstance(found, UserKernel):
        raise KernelError(
            f"expected a kernel, found {name} of type {type(found).__name__}", str(path), "write @gp.kernel above it"
        )
    return found


def restore(source: str, file: str) -> UserKernel:
    """Return the kernel with the given `UserKernel.source`; `file` is its name in messages.

    Executing the source only defines functions of scalars: anything else is rejected.

    Raises
    ------
    KernelError
        If the source was not written by a kernel.
    """
    pieces, options = read(source, file)
    inputs = parameters(pieces[-1].function)  # type: ignore[arg-type]
    unknown = [f"{key}={options[key]}" for key in CHOICES if options[key] not in CHOICES[key]]
    if unknown or not 1 <= len(inputs) <= MOST_INPUTS:
        raise KernelError(f"not the source of a gpupipe kernel: {', '.join(unknown) or f'{len(inputs)} inputs'}", file)
    made = UserKernel(pieces[-1].name, inputs, options["out"], options["nulls"], lambda: pieces)
    made.source = source
    return made
