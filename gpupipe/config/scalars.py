"""Parsing of plain YAML scalars by the rules of YAML 1.2, plus ``1_000``, instead of YAML 1.1.

PyYAML follows YAML 1.1, where ``no`` is false, ``12:30`` is 750 and ``1e-3`` is text. In configurations of tables these
are a country, a time and a learning rate. `read_size` reads a size that is given in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import yaml

from gpupipe.config.error_text import describe_python_value
from gpupipe.errors import ConfigError
from gpupipe.units import parse_size

Scalar = None | bool | int | float | str

NULL, BOOL, INT, FLOAT, STR = (f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str"))

# Tried in this order; a scalar that matches none is text.
_PATTERNS = {
    NULL: re.compile(r"^(~|null|Null|NULL|)$"),
    BOOL: re.compile(r"^(true|True|TRUE|false|False|FALSE)$"),
    INT: re.compile(r"^([-+]?[0-9][0-9_]{0,99}|0o[0-7]{1,99}|0x[0-9a-fA-F]{1,99})$"),
    FLOAT: re.compile(
        r"^([-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
    ),
}


def _to_int(text: str) -> int:
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _to_float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


_CONSTRUCTORS: dict[str, Callable[[str], Scalar]] = {
    NULL: lambda text: None,
    BOOL: lambda text: text.lower() == "true",
    INT: _to_int,
    FLOAT: _to_float,
    STR: str,
}


def construct(tag: str, text: str) -> Scalar:
    """Return the value of `text` under a YAML tag.

    Raise ValueError if the text does not match the tag, or the tag is not one of the five above.
    """
    if tag not in _CONSTRUCTORS:
        raise ValueError(f"the tag {tag!r} is not allowed here")
    return _CONSTRUCTORS[tag](text)


def resolve(text: str) -> Scalar:
    """Return the value of a plain (unquoted) scalar."""
    tag = next((tag for tag, pattern in _PATTERNS.items() if pattern.match(text)), STR)
    return construct(tag, text)


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml, where PyYAML has it
    """PyYAML's safe loader, with the patterns above."""

    yaml_implicit_resolvers: dict[str | None, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (PyYAML's name)


class Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper; quotes text that a YAML 1.1 or 1.2 reader would parse as another type."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent the items of a list below their key."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        """Return True, so that repeated values are written out instead of referenced by ``&id001``."""
        return True


for _tag, _pattern in _PATTERNS.items():
    Loader.add_implicit_resolver(_tag, _pattern, None)
    Dumper.add_implicit_resolver(_tag, _pattern, None)


def read_size(name: str, value: object) -> int:
    """Return a size in bytes, from a number of bytes or text such as ``"16GiB"``."""
    try:
        found = parse_size(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ConfigError(str(error), where=name) from None
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise ConfigError(f'expected bytes, or text such as "16GiB"; got {describe_python_value(value)}', where=name)
    return found
