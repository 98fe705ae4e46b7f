"""Source of a user kernel: the function and everything that it uses, as one self-contained file.

Helpers and global numbers are written before the function, numbers by their value, so that the source computes the same
wherever it is read. The source is also what is compiled in the first place. Standard library only.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
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
    is_special,
    parameters,
)

MODULES = {"math": MATH, "numpy": NUMPY}
# Control characters, other line separators of `str.splitlines`, direction marks and byte order marks.
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
USABLE = "use only numbers, math, plain functions and other kernels"


@dataclass(frozen=True)
class KernelStatement:
    """One statement of a kernel's source: an import, a number or a function.

    Attributes
    ----------
    name : str
        The name that it defines.
    text : str
        The statement as written, for readers; it is not compiled.
    node : ast.stmt
        The checked statement that is compiled; for functions, the result of `check`. Line numbers are those of `file`.
    file : str
        The file where it was written, for messages and tracebacks.
    """

    name: str
    text: str
    node: ast.stmt
    file: str = ""

    @property
    def line(self) -> int:
        """The first line in `file`."""
        return self.node.lineno

    @property
    def function(self) -> ast.FunctionDef | None:
        """The statement if it defines a function, else None."""
        return self.node if isinstance(self.node, ast.FunctionDef) else None

    @property
    def value(self) -> Any:
        """The value of an import or a number, found without executing it.

        Raise KernelError if the statement is neither.
        """
        match self.node:
            case ast.Import(names=[ast.alias(name=module)]) if module in MODULES:
                return import_module(module)
            case ast.ImportFrom(module=str(module), names=[ast.alias(name=name)], level=0) if name in MODULES.get(
                module, ()
            ):
                return getattr(import_module(module), name)
            case ast.Assign(targets=[ast.Name()], value=value) if is_number(value):
                return _number(value)
        raise KernelError("expected only imports, numbers and functions", f"{self.file}:{self.line}")


def is_number(node: ast.expr) -> bool:
    """Return whether an expression is a number as written by `text_of`."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return is_number(operand)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value="inf" | "-inf" | "nan")], keywords=[]):
            return True  # infinity and NaN have no literal
        case ast.Constant(value=bool() | int() | float()):
            return True
    return False


def _number(node: ast.expr) -> Any:
    match node:
        case ast.UnaryOp(operand=operand):
            return -_number(operand)
        case ast.Call(args=[ast.Constant(value=str(text))]):
            return float(text)
        case ast.Constant(value=value):
            return value
    raise AssertionError(ast.dump(node))


def require_plain(text: str, file: str) -> None:
    """Raise KernelError unless Python, tools and editors agree on the lines of a source.

    Raise KernelError if it contains a control character, a line separator other than a line feed, or a direction mark:
    the source displayed would then differ from the source compiled.
    """
    if found := HIDDEN.search(text):
        line = text.count("\n", 0, found.start()) + 1
        what = f"found the invisible character U+{ord(found[0]):04X}"
        raise KernelError(what, f"{file}:{line}", "remove it, and end lines with a line feed")


def statement_of(function: Callable[..., Any], n_decorators: int = 0) -> KernelStatement:
    """Return the source of a function without its decorators, checked against the kernel language.

    Raise KernelError if it is not valid, has more than `n_decorators`, or its source cannot be found.
    """
    name = getattr(function, "__name__", repr(function))
    try:
        file = inspect.getsourcefile(function) or "?"
        lines, first = inspect.getsourcelines(function)
        text = textwrap.dedent("".join(lines)).replace("\r\n", "\n")
        module = ast.parse(text)
    except (OSError, TypeError, SyntaxError):
        raise KernelError(f"{name}: source code not found", fix="define it in a file or a notebook cell") from None
    require_plain(text, file)
    node = ast.increment_lineno(module, first - 1).body[0]
    where = f"{file}:{first}"
    if not isinstance(node, ast.FunctionDef):
        raise KernelError(f"{name}: expected a function defined with def", where, "define it with def")
    if len(node.decorator_list) > n_decorators:
        raise KernelError(f"{name}: found other decorators", where, "remove them: only @gp.kernel is supported")
    return function_statement(node, text, file, first)


def function_statement(node: ast.FunctionDef, text: str, file: str, first_line: int = 1) -> KernelStatement:
    """Return the checked statement of a function.

    Raise KernelError if it is not valid in the kernel language.

    Parameters
    ----------
    text : str
        The surrounding source, checked by `require_plain`.
    first_line : int
        The line of `file` where `text` begins.
    """
    lines = text.split("\n")[node.lineno - first_line : (node.end_lineno or node.lineno) - first_line + 1]
    return KernelStatement(node.name, "\n".join(lines), check(node, file), file)


def collect(function: Callable[..., Any], piece: KernelStatement) -> tuple[KernelStatement, ...]:
    """Return the statements that a function depends on, and its own `piece`, in order of definition.

    Raise KernelError if it uses anything other than numbers, functions of ``math``, plain functions and kernels.
    """
    found: dict[str, KernelStatement] = {}
    _add_function(function, piece, found, ())
    verify(tuple(found.values()))
    return tuple(found.values())


def verify(pieces: Sequence[KernelStatement]) -> None:
    """Check that the statements are valid, and that each uses only names defined before it.

    Raises
    ------
    KernelError
        With the first invalid line.
    """
    defined: dict[str, ast.FunctionDef | str] = {}
    for piece in pieces:
        if is_special(piece.name):
            raise KernelError(f"cannot use {piece.name}", f"{piece.file}:{piece.line}", "choose another name")
        if piece.function is None:
            _ = piece.value
        else:
            check_names(piece.function, piece.file, defined)
        module = piece.node.names[0].name if isinstance(piece.node, ast.Import) else ""
        defined[piece.name] = piece.function or module


def check_names(function: ast.FunctionDef, file: str, defined: Mapping[str, ast.FunctionDef | str]) -> None:
    """Check the non-local names that a function uses.

    Parameters
    ----------
    defined : mapping of str to ast.FunctionDef or str
        Maps each name to its function or module, or ``""`` for anything else.

    Raises
    ------
    KernelError
        With the first line that uses an undefined name.
    """
    for name, line in free_names(function).items():
        if name not in BUILTINS and name not in defined:
            raise KernelError(f"{function.name}: {name} is not defined", f"{file}:{line}", USABLE)
    for name, attribute, line in attributes(function):
        module = defined.get(name, "")
        if not isinstance(module, str) or attribute not in MODULES.get(module, ()):
            fix = f"use math: {', '.join(sorted(MATH))}; or numpy: {', '.join(sorted(NUMPY))}"
            raise KernelError(f"{function.name}: {name}.{attribute} is not supported in kernels", f"{file}:{line}", fix)
    for name, n_arguments, line in calls(function):
        called = defined.get(name)
        if isinstance(called, ast.FunctionDef) and len(parameters(called)) != n_arguments:
            what = f"{function.name}: {name} expects {len(parameters(called))} arguments, got {n_arguments}"
            raise KernelError(what, f"{file}:{line}", f"def {name}({', '.join(parameters(called))})")


def _add_function(
    function: Callable[..., Any], piece: KernelStatement, found: dict[str, KernelStatement], callers: tuple[str, ...]
) -> None:
    callers = (*callers, piece.name)
    around = inspect.getclosurevars(function)
    names = {**around.globals, **around.nonlocals}
    for name, line in free_names(piece.function).items():  # type: ignore[arg-type]
        if name in callers:
            raise KernelError(f"{name}: recursion is not supported", f"{piece.file}:{line}", "write a loop")
        if name in names:
            _add(name, names[name], found, callers, f"{piece.file}:{line}")
    _put(piece, found)


def _add(name: str, value: Any, found: dict[str, KernelStatement], callers: tuple[str, ...], where: str) -> None:
    """Add the statement that defines a name, after its dependencies."""
    known: tuple[KernelStatement, ...] = getattr(value, "pieces", ())
    if isinstance(value, FunctionType):
        piece = statement_of(value)
        _add_function(value, piece, found, callers)
    elif known:  # another kernel
        for piece in known:
            _put(piece, found)
    else:
        text = _assignment(name, value, where)
        piece = KernelStatement(name, text, ast.parse(text).body[0], where.rpartition(":")[0])
        _put(piece, found)
    if piece.name != name:
        raise KernelError(f"{name} is an alias of {piece.name}", where, f"call it {piece.name}")


def _put(piece: KernelStatement, found: dict[str, KernelStatement]) -> None:
    other = found.setdefault(piece.name, piece)
    if other.text != piece.text:
        raise KernelError(
            f"{piece.name} refers to two different objects", f"{piece.file}:{piece.line}", "rename one of them"
        )


def _assignment(name: str, value: Any, where: str) -> str:
    """Return the statement that defines a name."""
    if isinstance(value, ModuleType) and value.__name__ in MODULES:
        return f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
    if isinstance(value, (BuiltinFunctionType, type)) and value.__name__ in MODULES.get(value.__module__, ()):
        return f"from {value.__module__} import {value.__name__}" + (f" as {name}" if name != value.__name__ else "")
    if isinstance(value, (bool, int)):
        return f"{name} = {value!r}"
    if isinstance(value, float):  # numpy.float64 too
        return f"{name} = {float(value)!r}" if math.isfinite(value) else f'{name} = float("{float(value)}")'
    raise KernelError(f"cannot use {name}, which is of type {type(value).__name__}", where, USABLE)


def text_of(pieces: Sequence[KernelStatement], decorator: str) -> str:
    """Return a kernel's source: a file that can be read back, and that a configuration can refer to."""
    *used, kernel = pieces
    imports = sorted(p.text for p in used if isinstance(p.node, (ast.Import, ast.ImportFrom)))
    numbers = [p.text for p in used if isinstance(p.node, ast.Assign)]
    functions = [p.text for p in used if p.function is not None]
    top = ["from __future__ import annotations", "\n".join([*imports, "import gpupipe"]), "\n".join(numbers)]
    blocks = ["\n\n".join(filter(None, top)), *functions, f"{decorator}\n{kernel.text}"]
    return "\n\n\n".join(blocks) + "\n"
