"""Static reading of kernels, without execution: from Python files, and from the source stored with a model.

Standard library only.
"""

from __future__ import annotations

import ast
import tokenize
from itertools import chain
from pathlib import Path

from gpupipe_kernels.user.language import KernelError, check, parameters
from gpupipe_kernels.user.source import (
    MODULES,
    KernelStatement,
    check_names,
    function_statement,
    is_number,
    require_plain,
    verify,
)

WRITE = "write @gp.kernel above it"


def declared(path: Path, name: str) -> tuple[str, ...] | None:
    """Return the parameters of the kernel `name` in a Python file, which is parsed, not executed.

    None if they are only known by executing the file, because the name is assigned or imported. Raise KernelError if
    the file or kernel does not exist, or the kernel is not valid in the kernel language.
    """
    try:
        with tokenize.open(path) as file:  # in the encoding that Python detects
            text = file.read()
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        raise KernelError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from None
    module = parse(text, str(path))
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    if name not in functions:
        if name in _defined(module):
            return None
        kernels = [each for each, node in functions.items() if node.decorator_list]
        raise KernelError(f"no kernel {name} in {path}", fix=f"kernels in the file: {', '.join(kernels) or 'none'}")
    function = functions[name]
    if not function.decorator_list:
        raise KernelError(f"{name} is a function, not a kernel", f"{path}:{function.lineno}", WRITE)
    check_names(check(function, str(path)), str(path), _defined(module))
    return parameters(function)


def parse(text: str, file: str) -> ast.Module:
    """Return the syntax tree of Python source.

    Raise KernelError if it is not valid Python; the message contains the line.
    """
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise KernelError(f"not valid Python: {error.msg}", f"{file}:{error.lineno}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise KernelError(f"not valid Python: {error}", file) from None


def read(text: str, file: str) -> tuple[tuple[KernelStatement, ...], dict[str, str]]:
    """Return the statements of a source written by `gpupipe_kernels.user.source.text_of`, and its decorator's options.

    Raise KernelError if it contains anything but imports of math and numpy, numbers, functions in the kernel language,
    and one kernel at the end: executing such a source only defines functions.
    """
    require_plain(text, file)
    *used, kernel = parse(text, file).body or [ast.Pass(lineno=1)]
    pieces = list(chain.from_iterable(_pieces(node, text, file) for node in used))
    options = _options(kernel)
    if not isinstance(kernel, ast.FunctionDef) or options is None:
        raise KernelError("expected a kernel at the end of the source", file)
    pieces.append(function_statement(kernel, text, file))
    verify(pieces)
    return tuple(pieces), options


def _pieces(node: ast.stmt, text: str, file: str) -> list[KernelStatement]:
    source = ast.get_source_segment(text, node) or ""
    match node:
        case ast.ImportFrom(module="__future__") | ast.Import(names=[ast.alias(name="gpupipe", asname=None)]):
            return []
        case ast.Import(names=[ast.alias(name=module, asname=alias)]) if module in MODULES:
            return [KernelStatement(alias or module, source, node, file)]
        case ast.ImportFrom(module=str(module), names=[ast.alias(name=name, asname=alias)], level=0) if (
            name in MODULES.get(module, ())
        ):
            return [KernelStatement(alias or name, source, node, file)]
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_number(value):
            return [KernelStatement(name, source, node, file)]
        case ast.FunctionDef(decorator_list=[]):
            return [function_statement(node, text, file)]
    raise KernelError("expected only imports, numbers and functions", f"{file}:{node.lineno}")


def _options(node: ast.stmt) -> dict[str, str] | None:
    """Return the options of ``@gpupipe.kernel(out=…, nulls=…)`` on a function, or None without the decorator."""
    if not isinstance(node, ast.FunctionDef) or len(node.decorator_list) != 1:
        return None
    match node.decorator_list[0]:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="gpupipe"), attr="kernel"), args=[], keywords=keywords):
            values = {k.arg or "": k.value.value for k in keywords if isinstance(k.value, ast.Constant)}
            return {key: str(value) for key, value in values.items()} if set(values) == {"out", "nulls"} else None
    return None


def _defined(module: ast.Module) -> dict[str, ast.FunctionDef | str]:
    """Return a module's names with their statically known values: a function, a module, or ``""`` for others."""
    found: dict[str, ast.FunctionDef | str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, "")
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                found[alias.asname or alias.name] = alias.name if isinstance(node, ast.Import) else ""
    return found
