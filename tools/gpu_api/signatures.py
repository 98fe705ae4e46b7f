"""Conversion of a callable's parameters and results to a line of text, ``(a, /, b=1, *, c=..., **kwargs)``, and back.

For compiled functions, which `inspect` cannot read, the docstring is parsed: its first line, which Cython and CuPy
write, or its list of parameters. A default that is not a literal is written as ``...``.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from inspect import Parameter, Signature
from typing import Any

_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_FIRST_LINE = re.compile(r"^[\w.]+\((?P<parameters>.*?)\)(?: -> (?P<result>[\w.]+))?\s*(?:\n|$)")
_NUMPY_PARAMETERS = re.compile(r"^Parameters\n-{3,}\n(.*?)(?=^\w+\n-{3,}|\Z)", re.MULTILINE | re.DOTALL)
_NUMPY_RETURNS = re.compile(r"^\s*Returns?\n\s*-{3,}\n\s*(.+)$", re.MULTILINE)
_GOOGLE_RETURNS = re.compile(r"^\s*Returns:\n\s*([\w.]+):", re.MULTILINE)


def parameters_of(function: Any) -> str | None:
    """Return the parameters as text, or None if unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return documented_parameters(inspect.getdoc(function) or "")
    return written(
        [p.replace(annotation=Parameter.empty, default=literal(p.default)) for p in signature.parameters.values()]
    )


def written(parameters: Iterable[Parameter]) -> str:
    """Return parameters as text."""
    return str(Signature(list(parameters))).replace("Ellipsis", "...")


def documented_parameters(doc: str) -> str | None:
    """Return the parameters in a docstring: in its first line, or in its parameters section."""
    first_line, section = _FIRST_LINE.match(doc), _NUMPY_PARAMETERS.search(doc)
    if first_line:
        return from_c(first_line["parameters"])
    names = re.findall(r"^(\w+) ?:", section[1], re.MULTILINE) if section else []
    return f"({', '.join(f'{name}=...' for name in names)})" if names else None


def literal(default: Any) -> Any:
    """Return `default` if it is the text of a literal, else ``...``."""
    if default is Parameter.empty:
        return default
    try:
        ast.literal_eval(repr(default))
    except (SyntaxError, ValueError, TypeError):
        return ...
    return default


def from_c(parameters: str) -> str | None:
    r"""Return Python parameters for those of a compiled module, such as ``size_t size, \*, stream=None``."""
    words = [
        re.sub(r"^[\w .\[\]]+ (?=\w+(=|$))|:[^=]*", "", word.strip()) for word in split(parameters.replace("\\", ""))
    ]
    text = f"({', '.join(words)})"
    try:
        parse(text)
    except (SyntaxError, ValueError):
        return None
    return text


def split(parameters: str) -> list[str]:
    """Return the parts of a text between commas outside brackets."""
    parts, depth = [""], 0
    for character in parameters:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


@cache
def parse(text: str) -> Signature:
    """Return the signature for a text that `parameters_of` wrote."""
    statement = ast.parse(f"def _{text}: ...").body[0]
    assert isinstance(statement, ast.FunctionDef)
    return Signature(list(_parameters(statement.args)))


def _parameters(arguments: ast.arguments) -> Iterator[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    for i, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        kind = Parameter.POSITIONAL_ONLY if i < len(arguments.posonlyargs) else Parameter.POSITIONAL_OR_KEYWORD
        yield Parameter(argument.arg, kind, default=_value(default))
    if arguments.vararg:
        yield Parameter(arguments.vararg.arg, Parameter.VAR_POSITIONAL)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield Parameter(argument.arg, Parameter.KEYWORD_ONLY, default=_value(default))
    if arguments.kwarg:
        yield Parameter(arguments.kwarg.arg, Parameter.VAR_KEYWORD)


def _value(default: ast.expr | None) -> Any:
    return Parameter.empty if default is None else ast.literal_eval(default)


def without_first(text: str) -> str:
    """Return the parameters of a method as its caller sees them."""
    parameters = list(parse(text).parameters.values())
    if parameters and parameters[0].kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        del parameters[0]
    return written(parameters)


def without(names: Collection[str], text: str) -> str:
    """Return the parameters that are not among `names`."""
    return written(parameter for name, parameter in parse(text).parameters.items() if name not in names)


def merged(text: str, others: str) -> str:
    """Return `text` with ``**kwargs`` replaced by the parameters of `others` that it lacks."""
    *kept, _ = parse(text).parameters.values()
    names = {parameter.name for parameter in kept}
    more = [p for p in parse(others).parameters.values() if p.name not in names]
    plain = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in more if p.kind in _NAMED]
    return written([*kept, *plain, *(p for p in more if p.kind == Parameter.VAR_KEYWORD)])


def result_names(function: Any) -> list[str]:
    """Return the names of the classes that a call may return, as written in its source; empty if unknown.

    Taken from the annotation, the ``return`` statements of the source, or the docstring, in this order.
    """
    annotation = getattr(function, "__annotations__", {}).get("return")
    if annotation is not None:
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
        return [word.strip(" '\"") for word in text.split("|") if word.strip() != "None"]
    return _returned_classes(function) or _documented_classes(inspect.getdoc(function) or "")


def has_source(function: Any) -> bool:
    """Return whether `function` has Python source; a generated method does not."""
    try:
        return isinstance(function, types.FunctionType) and bool(inspect.getsource(function))
    except (OSError, TypeError):
        return False


def _returned_classes(function: Any) -> list[str]:
    lines = inspect.getsource(function) if has_source(function) else ""
    body = ast.parse("if True:\n" + lines if lines[:1].isspace() else lines)
    values = [node.value for node in ast.walk(body) if isinstance(node, ast.Return)]
    names = {value.func.id for value in values if isinstance(value, ast.Call) and isinstance(value.func, ast.Name)}
    return sorted(names) if len(names) == len(values) else []


def _documented_classes(doc: str) -> list[str]:
    google, first_line = _GOOGLE_RETURNS.search(doc), _FIRST_LINE.match(doc)
    if google:
        return [google[1]]
    if first_line and first_line["result"]:
        return [first_line["result"]]
    numpy = _NUMPY_RETURNS.search(doc)
    return re.split(r",? or |, | \| ", numpy[1].rpartition(" : ")[2].strip()) if numpy else []
