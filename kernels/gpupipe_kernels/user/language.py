"""The kernel language: scalar arithmetic with the same meaning on CPU and GPU. Standard library only.

Numba supports more on the host than on a device, and both support more than a kernel can honour: a device cannot raise,
a row of numbers has no text or lists, and a path without ``return`` has no result. This module defines the language and
rejects everything else, with its line, before compilation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpupipe_kernels.user.flow import Flow, walk

BUILTINS = frozenset({"abs", "bool", "float", "int", "max", "min", "pow", "range", "round"})
MATH = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "degrees", "e",
    "erf", "erfc", "exp", "exp2", "expm1", "fabs", "floor", "frexp", "gamma", "hypot", "inf", "isfinite", "isinf",
    "isnan", "ldexp", "lgamma", "log", "log10", "log1p", "log2", "nan", "nextafter", "pi", "pow", "radians", "sin",
    "sinh", "sqrt", "tan", "tanh", "tau", "trunc",
})  # fmt: skip
"""The names of ``math`` that Numba supports on CPU and GPU."""

NUMPY = frozenset({
    "float32", "float64", "int32", "int64", "uint32", "uint64", "bool_", "e", "inf", "nan", "pi",
})  # fmt: skip
"""The types and constants of ``numpy``; for functions use ``math``."""

ALLOWED = (
    ast.Return, ast.Assign, ast.AugAssign, ast.If, ast.While, ast.For, ast.Break, ast.Continue,
    ast.Pass, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Name, ast.Attribute,
    ast.Constant, ast.Tuple, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip
REFUSED: dict[type[ast.AST], str] = {
    ast.FunctionDef: "a nested function",
    ast.Raise: "raise",
    ast.Assert: "assert",
    ast.Try: "try",
    ast.With: "with",
    ast.Lambda: "a lambda",
    ast.Import: "import",
    ast.ImportFrom: "import",
    ast.Expr: "a statement without effect",
    ast.AnnAssign: "a declaration without a value",
    ast.List: "a list",
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.ListComp: "a list",
    ast.DictComp: "a dict",
    ast.SetComp: "a set",
    ast.GeneratorExp: "a generator",
    ast.Subscript: "[…]",
    ast.JoinedStr: "text",
    ast.MatMult: "@",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
PLAIN = "use only arithmetic on numbers: math, comparisons, if, loops over range"
FIXES: dict[type[ast.AST], str] = {
    ast.FunctionDef: "define it at module level; a kernel may call it",
    ast.Raise: "a device cannot raise: return math.nan, which is null",
    ast.Assert: "a device cannot raise: return math.nan, which is null",
    ast.Is: "compare with ==, or math.isnan(x) for null",
    ast.IsNot: "compare with !=, or math.isnan(x) for null",
    ast.Import: "import at the top of the file",
    ast.ImportFrom: "import at the top of the file",
}


class KernelError(ValueError):
    """Invalid user kernel.

    Parameters
    ----------
    what, where, fix : str
        What is wrong; ``file:line``; what to do.
    """

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__("\n".join(filter(None, [what, where and f"where: {where}", fix and f"to do: {fix}"])))


def check(function: ast.FunctionDef, file: str) -> ast.FunctionDef:
    """Return a function reduced to its computation, checked against the kernel language.

    Decorators, annotations and the docstring are removed. Every remaining node is checked, and exactly these nodes are
    compiled.

    Raises
    ------
    KernelError
        With the first line outside the language.
    """

    def refuse(what: str, line: int | None, fix: str) -> KernelError:
        return KernelError(f"{function.name}: {what}", f"{file}:{line}", fix)

    args = function.args
    if args.defaults or args.kwonlyargs or args.vararg or args.kwarg or getattr(function, "type_params", None):
        raise refuse(
            "expected plain parameters only", function.lineno, "write def f(a, b): every parameter is an input"
        )
    for name in (function.name, *parameters(function)):
        if is_special(name):
            raise refuse(f"cannot use {name}", function.lineno, "choose another name")
    line, function = function.lineno, _reduced(function)
    for node in _nodes(function):
        line = getattr(node, "lineno", line)
        if found := _problem(node):
            raise refuse(found[0], line, found[1])
    flow = Flow(function.body, parameters(function), _bound(function))
    if flow.early:
        raise refuse(f"{flow.early[0].id} may be unassigned here", flow.early[0].lineno, "assign a value first")
    if flow.reaches_end:
        fix = "end with a return outside loops, or with if … else that both return"
        raise refuse("does not return on every path", function.end_lineno, fix)
    return function


def is_special(name: str) -> bool:
    """Return whether a name has a special meaning for Python, such as ``__builtins__``."""
    return name.startswith("__") and name.endswith("__")


def parameters(function: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names of a function's parameters."""
    return tuple(arg.arg for arg in function.args.posonlyargs + function.args.args)


def free_names(function: ast.FunctionDef) -> dict[str, int]:
    """Return the non-local names that a function uses, each with the line of its first use."""
    bound, free = _bound(function), dict[str, int]()
    for node in _nodes(function):
        if isinstance(node, ast.Name) and node.id not in bound:
            free.setdefault(node.id, node.lineno)
    return free


def attributes(function: ast.FunctionDef) -> Iterator[tuple[str, str, int]]:
    """Yield (module, name, line) for every ``module.name`` in a checked function."""
    for node in _nodes(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr, node.lineno


def calls(function: ast.FunctionDef) -> Iterator[tuple[str, int, int]]:
    """Yield (name, number of arguments, line) for every call by name."""
    for node in _nodes(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, len(node.args), node.lineno


def _reduced(function: ast.FunctionDef) -> ast.FunctionDef:
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.copy_location(ast.arg(arg.arg), arg) for arg in function.args.posonlyargs + function.args.args],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[],
    )
    reduced = ast.FunctionDef(function.name, arguments, _without_annotations(body), decorator_list=[])
    return ast.copy_location(reduced, function)


def _without_annotations(block: list[ast.stmt]) -> list[ast.stmt]:
    made: list[ast.stmt] = []
    for statement in block:
        plain = statement
        match statement:
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                plain = ast.Assign([target], value)
            case ast.If(test=test, body=body, orelse=orelse):
                plain = ast.If(test, _without_annotations(body), _without_annotations(orelse))
            case ast.While(test=test, body=body, orelse=orelse):
                plain = ast.While(test, _without_annotations(body), _without_annotations(orelse))
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                plain = ast.For(target, iterated, _without_annotations(body), _without_annotations(orelse))
        made.append(ast.copy_location(plain, statement))
    return made


def _nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for statement in function.body:
        yield from walk(statement)


def _bound(function: ast.FunctionDef) -> set[str]:
    """Return the names that a function assigns."""
    stored = {node.id for node in _nodes(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | set(parameters(function))


def _problem(node: ast.AST) -> tuple[str, str] | None:
    """Return the error in one node and its fix, or None."""
    refused = REFUSED.get(type(node))
    if refused or not isinstance(node, ALLOWED):
        return f"cannot use {refused or type(node).__name__.lower()}", FIXES.get(type(node), PLAIN)
    match node:
        case ast.Constant(value=value) if not isinstance(value, (bool, int, float)):
            return f"cannot use {value!r}", PLAIN
        case ast.Attribute(value=value) if not isinstance(value, ast.Name):
            return "cannot use the attributes of a value", PLAIN
        case ast.Name(id=name) if is_special(name):
            return f"cannot use {name}", PLAIN
        case ast.Return(value=None):
            return "expected a value after return", "return math.nan, which is null"
        case ast.Return(value=ast.Tuple()):
            return "expected one value after return, found several", "write one kernel per result"
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[_, _, step])) if not _is_step(step):
            return "expected a number other than 0 as the step of range", "write a constant step"
        case ast.For(iter=iterated, target=target) if not (_calls_range(iterated) and isinstance(target, ast.Name)):
            return "expected range in a for loop", "write for i in range(n)"
        case ast.Call(func=called, keywords=keywords) if keywords or not isinstance(called, (ast.Name, ast.Attribute)):
            return "expected plain arguments in a call", "f(a, b)"
        case ast.Assign(targets=targets) if not all(_is_target(target) for target in targets):
            return "expected a name as the target of an assignment", PLAIN
        case ast.AugAssign(target=target) if not isinstance(target, ast.Name):
            return "expected a name as the target of an assignment", PLAIN
    return None


def _is_step(step: ast.expr) -> bool:
    if isinstance(step, ast.UnaryOp):
        step = step.operand
    return isinstance(step, ast.Constant) and isinstance(step.value, int) and step.value != 0


def _calls_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"


def _is_target(target: ast.expr) -> bool:
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(name, ast.Name) for name in names)
