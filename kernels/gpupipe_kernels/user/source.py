"""The text of a user's kernel: the function and all that it uses, as one file that needs nothing beside itself.

A function takes helpers and numbers from around it. They are written out before it, numbers by their value, so the
text computes the same wherever and whenever it is read; and the text is what is compiled in the first place.
Standard library only.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from gpupipe_kernels.user.language import (
    BUILTINS,
    MATH,
    NUMPY,
    KernelError,
    attributes,
    calls,
    check,
    free_names,
    parameters,
)

MODULES = {"math": MATH, "numpy": NUMPY}
USABLE = "a kernel may use numbers, math, plain functions and other kernels"


@dataclass(frozen=True)
class Piece:
    """One statement of a kernel's text.

    Attributes
    ----------
    name : str
        What it defines.
    text : str
    file : str
        Where it was written, for messages and tracebacks.
    line : int
        Its first line there.
    """

    name: str
    text: str
    file: str = ""
    line: int = 1

    @cached_property
    def node(self) -> ast.stmt:
        """The statement, its lines those of `file`."""
        return ast.increment_lineno(ast.parse(self.text), self.line - 1).body[0]

    @property
    def function(self) -> ast.FunctionDef | None:
        """The statement, if it defines a function."""
        return self.node if isinstance(self.node, ast.FunctionDef) else None


def piece_of(function: Callable[..., Any], n_decorators: int = 0) -> Piece:
    """Return the text of a function without its decorators, verified to be in the language of kernels.

    Raises
    ------
    KernelError
        If it is not, has more than `n_decorators`, or its text is nowhere to be found.
    """
    name = getattr(function, "__name__", repr(function))
    try:
        file = inspect.getsourcefile(function) or "?"
        lines, first = inspect.getsourcelines(function)
        lines = textwrap.dedent("".join(lines)).split("\n")
        node = ast.parse("\n".join(lines)).body[0]
    except (OSError, TypeError, SyntaxError):
        raise KernelError(f"{name}: its text cannot be found", fix="write it in a file or a notebook cell") from None
    where = f"{file}:{first}"
    if not isinstance(node, ast.FunctionDef):
        raise KernelError(f"{name}: is no function of its own", where, "write it with def")
    if len(node.decorator_list) > n_decorators:
        raise KernelError(f"{name}: has decorators", where, "a kernel has one, and what it calls has none")
    text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    piece = Piece(node.name, text, file, first + node.lineno - 1)
    check(piece.function, file)  # type: ignore[arg-type]
    return piece


def collect(function: Callable[..., Any], piece: Piece) -> tuple[Piece, ...]:
    """Return what a function takes from around it, and its own `piece`, in an order in which they can be defined.

    Raises
    ------
    KernelError
        If it uses something that is no number, function of ``math``, plain function or kernel.
    """
    found: dict[str, Piece] = {}
    _add_function(function, piece, found, ())
    verify(tuple(found.values()))
    return tuple(found.values())


def verify(pieces: Sequence[Piece]) -> None:
    """Check that each function takes from around it only what is defined before it.

    Raises
    ------
    KernelError
        With the first line that does not.
    """
    defined: dict[str, ast.FunctionDef | str] = {}
    for piece in pieces:
        if piece.function is not None:
            check_names(piece.function, piece.file, defined)
        module = piece.node.names[0].name if isinstance(piece.node, ast.Import) else ""
        defined[piece.name] = piece.function or module


def check_names(function: ast.FunctionDef, file: str, defined: Mapping[str, ast.FunctionDef | str]) -> None:
    """Check what a function takes from around it.

    Parameters
    ----------
    function : ast.FunctionDef
    file : str
    defined : mapping of str to ast.FunctionDef or str
        Name to the function or the module that it is, ``""`` for anything else.

    Raises
    ------
    KernelError
        With the first line that uses what is not there.
    """
    for name, line in free_names(function).items():
        if name not in BUILTINS and name not in defined:
            raise KernelError(f"{function.name}: there is no {name}", f"{file}:{line}", USABLE)
    for name, attribute, line in attributes(function):
        module = defined.get(name, "")
        if not isinstance(module, str) or attribute not in MODULES.get(module, ()):
            fix = f"math has {', '.join(sorted(MATH))}; numpy has {', '.join(sorted(NUMPY))}"
            raise KernelError(f"{function.name}: a kernel knows no {name}.{attribute}", f"{file}:{line}", fix)
    for name, n_arguments, line in calls(function):
        called = defined.get(name)
        if isinstance(called, ast.FunctionDef) and len(parameters(called)) != n_arguments:
            what = f"{function.name}: {name} takes {len(parameters(called))} arguments, got {n_arguments}"
            raise KernelError(what, f"{file}:{line}", f"def {name}({', '.join(parameters(called))})")


def _add_function(
    function: Callable[..., Any], piece: Piece, found: dict[str, Piece], callers: tuple[str, ...]
) -> None:
    callers = (*callers, piece.name)
    around = inspect.getclosurevars(function)
    names = {**around.globals, **around.nonlocals}
    for name, line in free_names(piece.function).items():  # type: ignore[arg-type]
        if name in callers:
            raise KernelError(f"{name}: calls itself", f"{piece.file}:{line}", "write a loop")
        if name in names:
            _add(name, names[name], found, callers, f"{piece.file}:{line}")
    _put(piece, found)


def _add(name: str, value: Any, found: dict[str, Piece], callers: tuple[str, ...], where: str) -> None:
    """Add what gives a name its value."""
    known: tuple[Piece, ...] = getattr(value, "pieces", ())
    if isinstance(value, FunctionType):
        piece = piece_of(value)
        _add_function(value, piece, found, callers)
    elif known:  # another kernel
        for piece in known:
            _put(piece, found)
    else:
        piece = Piece(name, _assignment(name, value, where))
        _put(piece, found)
    if piece.name != name:
        raise KernelError(f"{name} is another name of {piece.name}", where, "call it by its own")


def _put(piece: Piece, found: dict[str, Piece]) -> None:
    other = found.setdefault(piece.name, piece)
    if other.text != piece.text:
        raise KernelError(
            f"two different things are called {piece.name}", f"{piece.file}:{piece.line}", "rename one of them"
        )


def _assignment(name: str, value: Any, where: str) -> str:
    """Return the statement that gives a name its value."""
    if isinstance(value, ModuleType) and value.__name__ in MODULES:
        return f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
    if isinstance(value, (BuiltinFunctionType, type)) and value.__name__ in MODULES.get(value.__module__, ()):
        return f"from {value.__module__} import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
    if isinstance(value, (bool, int)):
        return f"{name} = {value!r}"
    if isinstance(value, float):  # numpy.float64 too
        return f"{name} = {float(value)!r}" if math.isfinite(value) else f'{name} = float("{float(value)}")'
    raise KernelError(f"cannot use {name}, which is of type {type(value).__name__}", where, USABLE)


def text_of(pieces: Sequence[Piece], decorator: str) -> str:
    """Return a kernel's text: a file that can be read back, and that a configuration may name."""
    *used, kernel = pieces
    imports = sorted(p.text for p in used if isinstance(p.node, (ast.Import, ast.ImportFrom)))
    numbers = [p.text for p in used if isinstance(p.node, ast.Assign)]
    functions = [p.text for p in used if p.function is not None]
    top = ["from __future__ import annotations", "\n".join([*imports, "import gpupipe"]), "\n".join(numbers)]
    blocks = ["\n\n".join(filter(None, top)), *functions, f"{decorator}\n{kernel.text}"]
    return "\n\n\n".join(blocks) + "\n"
