"""The JSON Schema of the configuration in words: types, bounds, defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from gpupipe.config import json_schema
from gpupipe_reference.markdown import code, escape, link

JsonSchema = Mapping[str, Any]

REFERENCE = "#/$defs/"
NULL = {"type": "null"}
UNITS = {
    "bytes": "size: bytes, or text such as `16GiB`",
    "seconds": "duration: seconds, or text such as `15min`",
    "duration": "duration such as `30d`, `12h` or `90min`",
    "time": "ISO date or time",
}
SIMPLE = {
    "string": ("string", "strings"),
    "integer": ("integer", "integers"),
    "number": ("number", "numbers"),
    "boolean": ("`true` or `false`", "booleans"),
    "object": ("mapping", "mappings"),
    "array": ("list", "lists"),
    "null": ("`null`", "nulls"),
}


@dataclass(frozen=True)
class SettingText:
    """One setting in words.

    Attributes
    ----------
    name : str
    type : str
        Markdown.
    default : str
        Markdown; empty if the setting is required, or if it has no single default.
    required : bool
    description : str
        As in the schema: prose with code spans.
    definitions : tuple of str
        Names of the definitions that the type refers to.
    """

    name: str
    type: str
    default: str
    required: bool
    description: str
    definitions: tuple[str, ...]


@cache
def schema() -> JsonSchema:
    """Return the schema that ``gpupipe schema`` prints."""
    return json_schema()


def definition_of(name: str) -> JsonSchema:
    """Return the object of a definition: of several forms, the one with settings."""
    found: JsonSchema = schema()["$defs"][name]
    forms = [found, *found.get("anyOf", ())]
    return next((form for form in forms if "properties" in form), found)


def settings(found: JsonSchema, labels: Mapping[str, str]) -> list[SettingText]:
    """Return the settings of an object in words, in their order.

    Parameters
    ----------
    found : mapping
        An object of the schema.
    labels : mapping of str to str
        Definition to the label of its text.
    """
    required = set(found.get("required", ()))
    return [
        SettingText(
            name,
            type_text(field, labels) + _or_null(field),
            "" if name in required else default_text(field),
            name in required,
            field.get("description", ""),
            tuple(references(field)),
        )
        for name, field in found.get("properties", {}).items()
    ]


def _or_null(field: JsonSchema) -> str:
    """Return the null among the values; without a default, `optional` says it."""
    return ", or `null`" if NULL in field.get("anyOf", ()) and field.get("default") is not None else ""


def references(found: Any) -> Iterator[str]:
    """Yield the names of the definitions that a part of the schema refers to."""
    if isinstance(found, Mapping):
        if "$ref" in found:
            yield found["$ref"].removeprefix(REFERENCE)
        for value in found.values():
            yield from references(value)
    elif isinstance(found, list):
        for value in found:
            yield from references(value)


def default_text(field: JsonSchema) -> str:
    """Return the default as YAML in a code span; empty where there is none, or where it is that of other settings."""
    default = field.get("default")
    if default is None or default in ([], {}) or "$ref" in field:
        return ""
    return code(flow(default))


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("...").strip()


def type_text(field: JsonSchema, labels: Mapping[str, str], plural: bool = False) -> str:
    """Return a type in words, as Markdown: ``integer ≥ 1``, ``one of `a`, `b` ``, ``text, or list of texts``."""
    if "x-unit" in field:
        return UNITS[field["x-unit"]]
    if "$ref" in field:
        name = field["$ref"].removeprefix(REFERENCE)
        text = link("settings", labels[name]) if name in labels else "mapping"
        return f"[mappings](#{labels[name]})" if plural and name in labels else text
    if "const" in field:
        return code(flow(field["const"]))
    if "enum" in field:
        values = [code(flow(value)) for value in field["enum"]]
        return values[0] if len(values) == 1 else ("" if plural else "one of ") + ", ".join(values)
    if "anyOf" in field:
        return _alternatives(field, labels, plural)
    kind = field.get("type", "")
    if kind == "array":
        return _list(field, labels, plural)
    if kind == "object":
        return _mapping(field, labels, plural)
    words = SIMPLE[kind][plural] if kind in SIMPLE else ("values" if plural else "any value")
    return words + _bounds(field)


def _alternatives(field: JsonSchema, labels: Mapping[str, str], plural: bool) -> str:
    given = [form for form in field["anyOf"] if form != NULL]
    words = list(dict.fromkeys(type_text(form, labels, plural) for form in given))
    scalars = [SIMPLE[kind][plural] for kind in ("boolean", "integer", "number", "string")]
    if set(scalars) <= set(words):
        words = ["values" if plural else "any value", *(word for word in words if word not in scalars)]
    bounds = _bounds(field)
    return (", or ".join(words) if len(words) < 4 else ", ".join(words[:-1]) + f", or {words[-1]}") + bounds


def _list(field: JsonSchema, labels: Mapping[str, str], plural: bool) -> str:
    if "prefixItems" in field:
        items = list(dict.fromkeys(type_text(item, labels) for item in field["prefixItems"]))
        what = items[0] if len(items) == 1 else " and ".join(items)
        return f"list of {len(field['prefixItems'])}: {what}"
    inner = type_text(field["items"], labels, plural=True) if field.get("items") else "values"
    return f"{'lists' if plural else 'list'} of {inner}"


def _mapping(field: JsonSchema, labels: Mapping[str, str], plural: bool) -> str:
    word = "mappings" if plural else "mapping"
    values = field.get("additionalProperties")
    return f"{word} of name to {type_text(values, labels)}" if isinstance(values, Mapping) else word


def _bounds(field: JsonSchema) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    above, below = field.get("exclusiveMinimum", field.get("gt")), field.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f" from {number(low)} to {number(high)}"
    signs = {"≥": low, "\\>": above, "≤": high, "\\<": below}
    found = [f"{sign} {number(bound)}" for sign, bound in signs.items() if bound is not None]
    return " " + " and ".join(found) if found else ""


def number(value: float) -> str:
    """Return a bound for people: 2**32 as a power, thousands with commas."""
    if value == 2**32:
        return "2³²"
    return escape(f"{value:,}" if isinstance(value, int) else f"{value:g}")
