"""What a user's kernel may say: scalar arithmetic that means the same on both processors. Standard library only.

Numba takes more on the host than on a device, and both take more than a kernel can keep its word on: a device cannot
raise, text and lists have no place in a row of numbers, and a path without ``return`` is no number. So the language is
stated here, and what is not of it is refused with its line before any compiler sees it.
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
"""What Numba knows of ``math`` on both processors."""

NUMPY = frozenset({
    "float32", "float64", "int32", "int64", "uint32", "uint64", "bool_", "e", "inf", "nan", "pi",
})  # fmt: skip
"""Of ``numpy``, types and constants; functions are those of ``math``."""

ALLOWED = (
    ast.Return, ast.Assign, ast.AugAssign, ast.If, ast.While, ast.For, ast.Break, ast.Continue,
    ast.Pass, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Name, ast.Attribute,
    ast.Constant, ast.Tuple, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip
REFUSED: dict[type[ast.AST], str] = {
    ast.FunctionDef: "a function inside",
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
PLAIN = "a kernel is arithmetic on numbers: math, comparisons, if, loops over range"
FIXES: dict[type[ast.AST], str] = {
    ast.FunctionDef: "define it outside; a kernel may call it",
    ast.Raise: "a device cannot raise: return math.nan, which is null",
    ast.Assert: "a device cannot raise: return math.nan, which is null",
    ast.Is: "compare with ==, or math.isnan(x) for null",
    ast.IsNot: "compare with !=, or math.isnan(x) for null",
    ast.Import: "import at the top of the file",
    ast.ImportFrom: "import at the top of the file",
}


class KernelError(ValueError):
    """A user's kernel cannot be used.

    Parameters
    ----------
    what, where, fix : str
        What is wrong; ``file:line``; what to do.
    """

    def __init__(self, what: str, where: str = "", fix: str = "") -> None:
        self.what, self.where, self.fix = what, where, fix
        super().__init__("\n".join(filter(None, [what, where and f"where: {where}", fix and f"to do: {fix}"])))


def check(function: ast.FunctionDef, file: str) -> ast.FunctionDef:
    """Return a function reduced to what is computed, verified to be in the language of kernels.

    Decorators, annotations and the docstring are left out: what remains was looked at to the last node, and it is what
    is compiled.

    Raises
    ------
    KernelError
        With the first line that is not.
    """

    def refuse(what: str, line: int | None, fix: str) -> KernelError:
        return KernelError(f"{function.name}: {what}", f"{file}:{line}", fix)

    args = function.args
    if args.defaults or args.kwonlyargs or args.vararg or args.kwarg or getattr(function, "type_params", None):
        raise refuse("takes plain parameters only", function.lineno, "every parameter is an input: def f(a, b)")
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
        raise refuse(f"{flow.early[0].id} may have no value here", flow.early[0].lineno, "give it one before")
    if flow.reaches_end:
        fix = "end with return, outside of loops, or with if … else that both return"
        raise refuse("does not return on every path", function.end_lineno, fix)
    return function


def is_special(name: str) -> bool:
    """Return whether Python gives a name of this form a meaning of its own, such as ``__builtins__``."""
    return name.startswith("__") and name.endswith("__")


def parameters(function: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names of a function's parameters."""
    return tuple(arg.arg for arg in function.args.posonlyargs + function.args.args)


def free_names(function: ast.FunctionDef) -> dict[str, int]:
    """Return the names that a function takes from outside, each with the first line where it does."""
    bound, free = _bound(function), dict[str, int]()
    for node in _nodes(function):
        if isinstance(node, ast.Name) and node.id not in bound:
            free.setdefault(node.id, node.lineno)
    return free


def attributes(function: ast.FunctionDef) -> Iterator[tuple[str, str, int]]:
    """Yield (module, name, line) for every ``module.name`` of a function that was checked."""
    for node in _nodes(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr, node.lineno


def calls(function: ast.FunctionDef) -> Iterator[tuple[str, int, int]]:
    """Yield (name, number of arguments, line) for every call of a name."""
    for node in _nodes(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, len(node.args), node.lineno


def _reduced(function: ast.FunctionDef) -> ast.FunctionDef:
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.copy_location(ast.arg(arg.arg), arg) for arg in function.args.posonlyargs + function.args.args],
        kwonlyargs=[], kw_defaults=[], defaults=[],
    )  # fmt: skip
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
    """Return the names that a function gives a value itself."""
    stored = {node.id for node in _nodes(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | set(parameters(function))


def _problem(node: ast.AST) -> tuple[str, str] | None:
    """Return what is wrong with one node, and what to do."""
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
            return "return without a value", "return math.nan, which is null"
        case ast.Return(value=ast.Tuple()):
            return "returns several values", "return one number; a second kernel returns the other"
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[_, _, step])) if not _is_step(step):
            return "the step of range must be a number other than 0", "write the number"
        case ast.For(iter=iterated, target=target) if not (_calls_range(iterated) and isinstance(target, ast.Name)):
            return "for needs range", "for i in range(n)"
        case ast.Call(func=called, keywords=keywords) if keywords or not isinstance(called, (ast.Name, ast.Attribute)):
            return "calls take plain arguments only", "f(a, b)"
        case ast.Assign(targets=targets) if not all(_is_target(target) for target in targets):
            return "assigns to something that is no name", PLAIN
        case ast.AugAssign(target=target) if not isinstance(target, ast.Name):
            return "assigns to something that is no name", PLAIN
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
